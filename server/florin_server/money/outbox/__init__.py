"""Outbox: events for webhooks, written in the commit that changes a payment's state."""
