"""Transactions of ours on Solana: payouts, token accounts, durable nonces."""
