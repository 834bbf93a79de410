"""Refunds: money of a payment that returns to its buyer, as payouts."""
