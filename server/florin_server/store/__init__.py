"""What is remembered: operations on SQLite, each one transaction."""
