"""Delivers queued events to endpoints."""
