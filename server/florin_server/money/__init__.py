"""Payments, refunds, payouts, settlement and the ledger: they end in one commit."""
