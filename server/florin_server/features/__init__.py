"""What follows from money: webhooks, receipts, exports, icons and monitoring."""
