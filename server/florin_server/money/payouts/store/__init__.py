"""Stored payouts and held money."""
