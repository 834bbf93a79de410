"""What assets cost: sources, the last good price of each, and which of them counts."""
