"""Transactions of ours, what they are for, and what a chain proved."""
