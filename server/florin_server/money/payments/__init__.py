"""Payments: what merchants request and buyers pay, from creation to the end."""
