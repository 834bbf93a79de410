"""The operator's calls about the books."""
