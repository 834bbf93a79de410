"""The events that a change of money leaves behind for webhooks."""
