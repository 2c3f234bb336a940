"""Extreme numbers against every component: `python -m extremes`, see docs/robustness.md."""
