"""Actions on payouts and on held money."""
