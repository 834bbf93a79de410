"""What an EVM chain needs before it takes payments."""
