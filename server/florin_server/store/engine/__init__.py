"""SQLite and what runs on it: statements, groups of writes, reads, migrations."""
