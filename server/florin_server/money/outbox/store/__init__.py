"""Stored events, and those of rows that older releases wrote."""
