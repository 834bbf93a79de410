"""Payments on Solana: the buyer signs a transfer, the relayer pays its fee and sends it."""
