"""Tells endpoints what waits for them."""
