"""Commands for the audit log."""
