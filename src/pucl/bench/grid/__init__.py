"""Grids of experiments: TOML files to typed cells."""
