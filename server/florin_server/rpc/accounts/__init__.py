"""What partners manage themselves, and what the operator does for them."""
