"""Stored leases, executors, quarantined items and conditions."""
