"""Actions on leases, executors and quarantined items."""
