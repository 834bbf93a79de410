"""Postings, and the comparison of the ledger with the chains."""
