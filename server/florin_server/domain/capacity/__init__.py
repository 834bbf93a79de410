"""Capacity: what an installation carries, and how large it must be for a rate of payments."""
