"""Signing, sending and tracking of payouts."""
