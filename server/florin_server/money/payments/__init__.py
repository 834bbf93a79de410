"""Payments: created, paid and ended."""
