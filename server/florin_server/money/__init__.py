"""Money: payments, refunds, payouts, settlement and the ledger, which end in one commit."""
