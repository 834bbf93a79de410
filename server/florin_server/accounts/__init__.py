"""Merchants, partners, customers, wallets and their keys."""
