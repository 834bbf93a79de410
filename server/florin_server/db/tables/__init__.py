"""The tables, the same on SQLite and PostgreSQL."""
