"""Readers of the official files, one format per file: a path in, arrays out, a damaged file named."""
