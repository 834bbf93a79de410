"""The operator's calls about money that leaves, and money that is held."""
