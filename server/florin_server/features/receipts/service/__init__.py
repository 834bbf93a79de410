"""Creation of receipts, and of the keys that sign them."""
