"""The form for buyer data."""
