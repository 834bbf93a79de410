"""Preparation of an EVM chain before it takes payments."""
