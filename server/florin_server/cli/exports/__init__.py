"""Commands that export data for analysis."""
