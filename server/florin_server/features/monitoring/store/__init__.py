"""Stored figures of monitoring, and counts of the rows of others."""
