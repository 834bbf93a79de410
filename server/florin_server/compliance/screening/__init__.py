"""Screening: accounts that may not pay, by lists of the operator and of authorities."""
