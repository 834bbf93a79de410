"""Verifies and settles payments of x402."""
