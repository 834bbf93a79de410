"""Commands for webhooks."""
