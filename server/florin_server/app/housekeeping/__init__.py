"""Expiry, the ledger of wallets, and prices."""
