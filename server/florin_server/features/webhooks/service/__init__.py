"""Webhooks: endpoints, and their events."""
