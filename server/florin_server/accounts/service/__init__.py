"""Partners, keys, wallet apps, merchants and their destinations."""
