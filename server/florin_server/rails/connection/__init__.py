"""Connections to the nodes of one chain, including unreliable nodes."""
