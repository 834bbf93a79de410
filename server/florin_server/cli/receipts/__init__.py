"""Commands for receipts and the keys that sign them."""
