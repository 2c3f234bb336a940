"""Numerics shared by all parts: principal axes, nearest rows, AUC, logistic regression, k-means; one of each."""
