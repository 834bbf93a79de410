"""Sums and pages of the ledger, by merchant and time."""
