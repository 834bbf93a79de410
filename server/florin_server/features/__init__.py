"""Features that follow from payments: webhooks, receipts, exports, icons, forms, monitoring."""
