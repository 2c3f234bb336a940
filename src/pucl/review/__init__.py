"""The review loop: which rows to look at, sheets to answer, a log of the answers, and what a new fit changed."""
