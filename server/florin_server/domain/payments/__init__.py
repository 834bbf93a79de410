"""Payments: what they are, where they can go, and what wallets send for them."""
