"""Quarantined items, and the operator's actions on them."""
