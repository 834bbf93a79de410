"""`database.md`: what Florin needs of a database that speaks PostgreSQL's protocol.

Statements and tables are read from the code; what this module names besides is compared with the
texts that tests send.
"""

from __future__ import annotations

from collections.abc import Mapping

from florin_server.db.tables.tables import METADATA
from sqlalchemy import Table

from tools.reference.markdown import format_code, render_page, render_table
from tools.reference.sql_features import (
    SqlFeatures,
    find_features,
    list_definitions,
    list_statements,
)

# how the service runs its statements, and what it reads of the server
SYSTEM_STATEMENTS: Mapping[str, str] = {
    "BEGIN ISOLATION LEVEL SERIALIZABLE": "a write",
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY": "a read; a stricter level will do",
    "COMMIT": "and its writes are on disk",
    "ROLLBACK": "also after each read",
    "SET name = 'value'": "settings of a session, read again before its first use",
    "SELECT name, setting FROM pg_settings WHERE name = ANY($1)": "whether it has kept them",
    "SELECT pg_backend_pid()": "whether a pooler is in front",
    "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint": "the time of the server",
    "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema() AND "
    "table_type = 'BASE TABLE'": "whether the database is Florin's",
    "SELECT 'Z' < 'a', lower('É') = 'é', current_setting('server_encoding') = 'UTF8'": "whether "
    "it compares texts as bytes",
    "SELECT to_regclass('alembic_version')": "whether the tables exist",
    "SELECT version_num FROM alembic_version": "the version of the tables",
    "SELECT coalesce(to_jsonb(stamp) ->> 'compatible_from', '') FROM alembic_version AS stamp": (
        "the oldest version whose Florin can use them"
    ),
    "ANALYZE": "once the first rows are there; plans are for empty tables otherwise",
    "SET LOCAL statement_timeout = 0": "for that statement",
}
SESSION_SETTINGS = (
    *("default_transaction_isolation", "default_transaction_read_only", "statement_timeout"),
    *("lock_timeout", "idle_in_transaction_session_timeout", "synchronous_commit"),
)
# functions that tell more about a server of PostgreSQL itself; Florin does without them elsewhere
OPTIONAL_FUNCTIONS = (
    *("pg_control_system", "pg_walfile_name", "pg_current_wal_lsn", "pg_is_in_recovery"),
    "pg_last_xact_replay_timestamp",
)
# of lists and statements, which are composed as they are requested
_COMPOSED_FUNCTIONS = frozenset({"substr"})
_CLAUSES: Mapping[str, str] = {
    "ANY": "`= ANY($1)` with an array of texts",
    "CONFLICT": "`INSERT … ON CONFLICT (…) DO NOTHING` and `DO UPDATE`",
    "RETURNING": "`RETURNING` of inserts, updates and deletes",
    "SHARE": "`SELECT … FOR SHARE`",
    "LOCKED": "`SELECT … FOR UPDATE`, also with `SKIP LOCKED`",
    "OVER": "window functions `OVER (PARTITION BY … ORDER BY …)`",
    "UNION": "`UNION ALL`",
}
_OWNERS = ("payment_id", "merchant_id", "partner_id")
# tables without such a column: to whom a row belongs, and whether there is one for each payment
_OTHER_OWNERS: Mapping[str, str] = {
    "address_sweep": "chain and address; one for each address of a payment",
    "chain_tx": "chain and key: keys send in the order of their nonces; one for up to 50 payments",
    "chain_tx_bump": "transaction; few",
    "deposit": "chain and address; found by block and by address; one for each transfer to an "
    "address",
    "idempotency": "scope, the hash of a caller's key; one for each call that must run once",
    "ledger_transfer": "journal, whose key has the payment or the payout; one or two for each "
    "payment",
    "watched_tx": "chain and transaction; few",
}
_ABOUT = """\
PostgreSQL is the database on which every release is tested. Other databases speak its protocol:
compare them with this page, which has all that Florin uses. No other database was tried. The tests
with `isolation = "serializable"` refuse each statement that uses more, as such a database would."""
_ISOLATION = """\
Set `isolation = "serializable"` and `notify = false` in [`[database]`](settings.md#database). Then

- every write is a serializable transaction. Conflicts end with SQLSTATE 40001, 40P01 or 55P03, at a
  statement or at the commit, and Florin runs the transaction again;
- processes find the changes of other processes within a second, without `LISTEN` and `NOTIFY`;
- a connection sends nothing but `application_name` as it starts, and its settings afterwards;
- statements are prepared, and their values are binary;
- there are no sequences, triggers, stored procedures, advisory locks, cursors or temporary tables.
  Times are integers."""
_DEFINITIONS = """\
The first start creates the tables in one transaction, with partial indexes, indexes on expressions,
checks and foreign keys. If tables cannot be created in a transaction, start one process first.
Migrations also use `ALTER TABLE`, `LOCK TABLE` and `CREATE INDEX CONCURRENTLY`: where these do not
exist, run the statements of [`florin migrate --sql`](../postgresql.md#upgrade) yourself."""
_ROWS = """\
Databases that distribute rows over machines need a column for that. Ids of payments begin with the
time, so ranges of them put all new rows on one machine: distribute by a hash of the column.

Distribute the tables that have `payment_id` by it, and `payment` by `id`. A merchant would be the
wrong column: a large one fills a machine, and no write needs two payments because they are of one
merchant. Writes change rows of one payment and of its journal, or of the payments in one
transaction of a chain. While all connections are in use, waiting writes share a transaction, so set
more `writers`. Lists of a merchant or a partner read an index of `payment`. Tables that are not
below are small, and all processes read them: keep a copy on each machine."""


def get_allowed_features() -> SqlFeatures:
    """Return all that Florin may use of a database, as this page says."""
    composed = (f"{name}()" for name in _COMPOSED_FUNCTIONS)
    return find_features((*list_statements(), *composed, *list_definitions(), *SYSTEM_STATEMENTS))


def render_database() -> str:
    """Return the document."""
    features = find_features(list_statements())
    clauses = [text for word, text in _CLAUSES.items() if word in features.keywords]
    return render_page(
        "Database contract",
        _ABOUT,
        "## Transactions and sessions",
        _ISOLATION,
        render_table(
            ("Statement", "For"),
            [(format_code(text), meaning) for text, meaning in SYSTEM_STATEMENTS.items()],
        ),
        f"Settings of a session: {_list(SESSION_SETTINGS)}, and `jit` where it exists.",
        f"Where they exist, Florin also calls {_list(OPTIONAL_FUNCTIONS)}: it notices a failover "
        "and reads from a standby by them.",
        "## Statements",
        "The statements are written in the code, with joins, subqueries, `CASE`, `GROUP BY`, "
        "`HAVING`, `ORDER BY`, `LIMIT` and `OFFSET`. Besides these they use",
        "\n".join(f"- {text}" for text in clauses),
        f"Functions: {_list(sorted(features.functions | _COMPOSED_FUNCTIONS))}.",
        f"Types: {_list(sorted(features.types))}. `NUMERIC` has up to 78 digits.",
        "## Tables",
        _DEFINITIONS,
        "## Rows of payments",
        _ROWS,
        render_table(
            ("Table", "Primary key", "Rows belong to"),
            [
                (format_code(table.name), _list(_list_key(table)), owner)
                for _, table in sorted(METADATA.tables.items())
                if (owner := _describe_owner(table))
            ],
        ),
    )


def _describe_owner(table: Table) -> str:
    """Return to whom a row belongs; empty for small tables that all processes read."""
    if text := _OTHER_OWNERS.get(table.name):
        return text
    return ", ".join(format_code(name) for name in _OWNERS if name in table.columns)


def _list_key(table: Table) -> list[str]:
    return [column.name for column in table.primary_key]


def _list(names: list[str] | tuple[str, ...]) -> str:
    return ", ".join(format_code(name) for name in names)
