"""The users of Florin: partners, keys, wallet apps, merchants and their destinations."""
