"""Merchants' pictures."""
