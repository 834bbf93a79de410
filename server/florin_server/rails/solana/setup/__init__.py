"""Preparation of a Solana cluster before it takes payments."""
