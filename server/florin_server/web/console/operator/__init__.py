"""The operator's console: what the operator's token may do."""
