"""Forms of buyers' data."""
