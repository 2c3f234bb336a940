"""Numerics shared by all parts: principal axes, AUC and rank correlation, logistic regression."""
