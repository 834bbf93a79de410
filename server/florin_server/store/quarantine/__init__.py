"""Items that were set aside."""
