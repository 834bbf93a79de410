"""Limits of requests and of open calls."""
