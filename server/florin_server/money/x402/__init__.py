"""Transfers that others' buyers signed, sent for them by the protocol x402."""
