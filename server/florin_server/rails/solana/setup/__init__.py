"""What a Solana cluster needs before it takes payments."""
