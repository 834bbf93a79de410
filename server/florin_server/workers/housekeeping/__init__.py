"""What ends by itself, the books of wallets, and prices."""
