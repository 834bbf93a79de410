"""Our transactions on an EVM chain: dry runs, fees, signing and sending."""
