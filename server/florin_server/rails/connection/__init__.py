"""Connections to the nodes of one chain, however many and however bad."""
