"""Pure rules of payments, without input or output."""
