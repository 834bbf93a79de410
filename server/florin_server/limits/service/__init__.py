"""Counts of calls and streams, in this process and with others."""
