"""Benchmarks: the only place, with `metrics` and `theory`, where methods meet the truth."""
