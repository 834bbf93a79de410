"""Queued events of the sink."""
