"""Stored transactions, their items, and proofs from the chains."""
