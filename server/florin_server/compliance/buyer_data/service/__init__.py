"""Data about buyers: which payments need it, and which data is valid."""
