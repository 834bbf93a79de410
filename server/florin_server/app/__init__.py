"""Puts the service together, starts it, and ends it in order."""
