"""Health, conditions and figures, as the operator sees them."""
