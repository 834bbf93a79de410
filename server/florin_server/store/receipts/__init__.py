"""Data for receipts: the payments' places on their chains, and the signing keys."""
