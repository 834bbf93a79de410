"""Receipts, and the keys that sign them."""
