"""Baselines: published and simple methods under one signature, ``(x, s, prior, seed) → classifier of rows``.

A classifier is a module from raw rows to logits (n,), positive above 0.
"""
