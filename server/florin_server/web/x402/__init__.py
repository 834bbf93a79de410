"""Payments by programs (x402): the facilitator, and payments of Florin."""
