"""What nodes of a Solana cluster are asked, and what their answers prove."""
