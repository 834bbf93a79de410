"""SQLite and PostgreSQL, and what runs on them: statements, groups of writes, reads, migrations."""
