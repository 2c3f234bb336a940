"""The theorems of the paper, checked by numbers."""
