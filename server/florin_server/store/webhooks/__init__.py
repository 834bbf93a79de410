"""What is kept of webhooks."""
