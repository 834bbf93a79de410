"""Transactions of ours on an EVM chain: tried, priced, signed and sent."""
