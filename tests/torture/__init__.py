"""Faults at random moments of every verb that writes: `python -m torture`, see docs/robustness.md."""
