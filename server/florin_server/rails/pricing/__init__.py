"""Prices of assets: sources, the last good price of each, and which of them is used."""
