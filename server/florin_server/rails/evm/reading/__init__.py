"""Reads of an EVM chain's nodes, and what their answers prove."""
