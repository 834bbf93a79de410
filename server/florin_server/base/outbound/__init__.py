"""Requests to addresses that others name: they reach nothing but the public internet."""
