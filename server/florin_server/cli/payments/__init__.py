"""Commands for payments, payouts and the ledger."""
