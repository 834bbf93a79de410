"""Money that leaves, and money that is held."""
