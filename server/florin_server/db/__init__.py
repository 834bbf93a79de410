"""The database: engines, tables, migrations and what describes the installation."""
