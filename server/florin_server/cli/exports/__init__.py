"""Commands about what analysts get."""
