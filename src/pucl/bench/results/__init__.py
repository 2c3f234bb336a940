"""Results: stored lines, and the numbers the paper published."""
