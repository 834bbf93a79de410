"""Stored payments, their options, confirms and events."""
