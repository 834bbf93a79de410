"""PgBouncer in front of the tests' PostgreSQL, on a free port of the loopback network."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from urllib.parse import parse_qs, urlsplit

from florin_server.db.engine.where import DatabaseConfig

from tests.deploy import tools
from tests.support import postgres
from tests.support.until import wait_until

NAME = "127.0.0.1"
_END_S = 10
# the lines of the package's own file, plus its address and its access rule
_INI = """[databases]
* = {server}
[pgbouncer]
listen_addr = {name}
listen_port = {port}
unix_socket_dir =
auth_type = any
logfile = {folder}/log
"""


@dataclass
class Pooler:
    """A running PgBouncer."""

    process: subprocess.Popen[bytes]
    port: int
    folder: Path

    def dsn(self, database: DatabaseConfig) -> str:
        """Return the address of a database through the pooler."""
        user = urlsplit(database.dsn).username or "postgres"
        return f"postgresql://{user}@{NAME}:{self.port}/{postgres.get_database_name(database.dsn)}"

    def change(self, old: str, new: str) -> None:
        """Change its file and make it reload the file."""
        ini = self.folder / "pgbouncer.ini"
        ini.write_text(ini.read_text().replace(old, new))
        self.process.send_signal(signal.SIGHUP)


@asynccontextmanager
async def running(*lines: str) -> AsyncIterator[Pooler]:
    """Run PgBouncer with its defaults and these lines of the section [pgbouncer]."""
    program = Path(tools.needed(tools.pgbouncer()))
    server = postgres.get_server_dsn()
    folder = Path(tempfile.mkdtemp(prefix="florin-pgbouncer-"))
    with socket.create_server((NAME, 0)) as free:
        port = free.getsockname()[1]
    text = _INI.format(server=_server(server), name=NAME, port=port, folder=folder)
    (folder / "pgbouncer.ini").write_text(text + "\n".join([*lines, ""]))
    command = [str(program), str(folder / "pgbouncer.ini")]
    user = _owner(server)
    if user is not None:
        # it does not run as root, and must reach the server's socket
        shutil.chown(folder, user)
        command[1:1] = ["-u", user]
    env = os.environ | {"LD_LIBRARY_PATH": tools.libraries(program)}
    with (folder / "said").open("wb") as sent_text:
        process = _started(command, sent_text, env)

    async def listens() -> bool:
        assert process.poll() is None, (folder / "said").read_text()
        try:
            _, writer = await asyncio.open_connection(NAME, port)
        except OSError:
            return False
        writer.close()
        return True

    try:
        await wait_until(listens)
        yield Pooler(process, port, folder)
    finally:
        process.terminate()
        process.wait(_END_S)
        shutil.rmtree(folder)


def _started(command: list[str], text: BinaryIO, env: dict[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, stdout=text, stderr=text, env=env)


def _server(dsn: str) -> str:
    """Return a server's address in PgBouncer's form."""
    parts = urlsplit(dsn)
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    port = parts.port or query.get("port", "5432")
    password = f" password={parts.password}" if parts.password else ""
    return f"host={query.get('host') or parts.hostname} port={port} user={parts.username}{password}"


def _owner(dsn: str) -> str | None:
    """Return the account to run it as; None for the tests' account."""
    if os.geteuid() != 0:
        return None
    host = parse_qs(urlsplit(dsn).query).get("host", [""])[0]
    return Path(host).owner() if host.startswith("/") else "nobody"
