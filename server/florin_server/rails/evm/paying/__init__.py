"""Buyers' payments on an EVM chain: offers, their terms, and their verification."""
