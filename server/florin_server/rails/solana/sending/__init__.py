"""Our transactions on Solana: payouts, token accounts, durable nonces."""
