"""Audit a run: compare everything in the store with everything on the chains.

The audit does not trust the service. It reads blocks, receipts and balances from the chains
themselves; the store must explain each of them exactly.
"""
