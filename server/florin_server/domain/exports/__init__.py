"""What an export holds: tables and their columns."""
