"""The judge of a run: everything that is stored against everything that is on the chains.

Nothing that the service says is believed: blocks, receipts and balances are read from the chains
themselves, and each of them must be explained by what is stored, to the last unit.
"""
