"""Leases, executors and quarantine."""
