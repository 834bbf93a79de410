"""Pages for buyers."""
