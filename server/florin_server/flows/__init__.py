"""One verb per module: what the service does."""
