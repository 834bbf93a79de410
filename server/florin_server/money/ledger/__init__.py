"""Ledger: double-entry books of all money, compared with the chains."""
