"""Webhooks: who is told of changes, and what."""
