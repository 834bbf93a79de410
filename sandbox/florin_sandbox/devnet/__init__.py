"""Embedded chains: JSON-RPC servers for tests, demos and test mode."""
