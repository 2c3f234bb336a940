"""Pages: tables, leaderboard and figures made of stored results."""
