"""Notifications between processes on one store of what they changed."""
