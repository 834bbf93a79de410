"""Statements and journals of a month, for bookkeepers."""
