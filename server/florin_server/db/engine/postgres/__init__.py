"""PostgreSQL by asyncpg: connections, groups of writes, snapshots, the schema."""
