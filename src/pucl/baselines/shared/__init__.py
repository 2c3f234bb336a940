"""What the baselines have in common: settings, the rows and networks, the loop, mixing, averaging, queues."""
