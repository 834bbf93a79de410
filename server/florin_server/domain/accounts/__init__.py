"""Who uses Florin: partners, keys, wallet apps, merchants and their destinations."""
