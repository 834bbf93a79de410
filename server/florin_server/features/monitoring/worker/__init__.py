"""Background work of monitoring."""
