"""Buyer forms: the fields that a payment asks its buyer for, and their submission."""
