"""Signed receipts."""
