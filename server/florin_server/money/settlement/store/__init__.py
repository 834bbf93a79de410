"""Our transactions, their items, and the chain's proofs."""
