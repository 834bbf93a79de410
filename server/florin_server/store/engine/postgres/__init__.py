"""PostgreSQL through asyncpg: connections, groups of writes, snapshots, the schema."""
