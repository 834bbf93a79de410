"""Stored journals and balances, and their checks."""
