"""Fitted models: their input, their scores, their record and their files."""
