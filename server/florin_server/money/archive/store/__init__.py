"""Statements of the archive."""
