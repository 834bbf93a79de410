"""SQLite and PostgreSQL engines: statements, grouped writes, reads, migrations."""
