"""Payouts: transfers from the treasury, and money that is held until the operator decides."""
