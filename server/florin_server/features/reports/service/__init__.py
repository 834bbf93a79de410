"""Statements, journals for accounting programs, and payments of a month."""
