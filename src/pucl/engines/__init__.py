"""Engines that run work on several machines; they know nothing of what the work is."""
