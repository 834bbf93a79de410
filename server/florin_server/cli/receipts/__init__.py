"""Commands about receipts and their keys."""
