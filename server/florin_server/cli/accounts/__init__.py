"""The commands about partners, keys, wallet apps, merchants and buyers."""
