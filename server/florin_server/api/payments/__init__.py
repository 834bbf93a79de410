"""The calls of wallets and of merchants' back ends."""
