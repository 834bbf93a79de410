"""Settlement on chain: transactions, evidence and gas."""
