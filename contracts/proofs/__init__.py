"""Proofs and test campaigns of the settlement contracts."""
