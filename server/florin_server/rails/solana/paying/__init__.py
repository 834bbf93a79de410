"""Buyers' payments on Solana: offers, their terms, and their verification."""
