"""The receipt of a payment for its buyer, and the keys that verify receipts."""
