"""Limits of callers."""
