"""Reads of a Solana cluster's nodes, and what their answers prove."""
