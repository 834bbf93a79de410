"""Limits: rates of calls and numbers of open streams, for each caller."""
