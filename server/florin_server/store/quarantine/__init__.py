"""Quarantined items."""
