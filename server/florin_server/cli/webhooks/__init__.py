"""Commands about webhooks."""
