"""Fitted models: what they take, what they say of rows, and how they lie on disk."""
