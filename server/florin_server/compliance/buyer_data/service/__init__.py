"""Checks of buyer data: which payments need it, and which data is valid."""
