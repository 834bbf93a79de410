"""Actions on a payment: create, offer options, confirm, cancel, watch."""
