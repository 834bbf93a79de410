"""Periods of reports, and the rules of statements."""
