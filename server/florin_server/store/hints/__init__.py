"""Cache invalidation between processes."""
