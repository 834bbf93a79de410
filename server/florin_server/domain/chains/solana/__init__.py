"""Accounts and instructions of Solana's programs."""
