"""The store of webhooks."""
