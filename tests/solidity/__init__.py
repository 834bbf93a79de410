"""Proofs and campaigns of the settlement contract."""
