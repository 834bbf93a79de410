"""Refunds, payouts, and the verdicts about money that is held."""
