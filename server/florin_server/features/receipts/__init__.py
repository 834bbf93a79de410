"""Receipts: signed statements about payments, and the keys that sign them."""
