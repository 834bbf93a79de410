"""The content of receipts, their signatures and their checks."""
