"""The content of an export: tables and their columns."""
