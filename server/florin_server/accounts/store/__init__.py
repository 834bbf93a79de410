"""Stored partners, keys, wallet apps, merchants and their destinations."""
