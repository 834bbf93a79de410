"""Payouts to merchants, refunds among them, and held money."""
