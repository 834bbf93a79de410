"""Payments on EVM chains."""
