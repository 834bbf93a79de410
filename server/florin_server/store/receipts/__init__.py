"""What is kept for receipts: where payments stand on their chains, and the keys that sign."""
