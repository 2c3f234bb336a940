"""Ranking: embeddings and s to an out-of-fold score for every row, and π̂ with its interval."""
