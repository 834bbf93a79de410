"""How much is taken from whom."""
