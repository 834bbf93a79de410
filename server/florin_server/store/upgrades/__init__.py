"""The remaining work on a store after a change of its schema."""
