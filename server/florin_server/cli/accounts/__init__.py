"""Commands for partners, API keys, wallets, merchants, version pins and buyer data."""
