"""Clocks, logs, metrics, traces, notifications and calls to hosts of others."""
