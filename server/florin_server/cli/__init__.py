"""The command line."""

from __future__ import annotations

from florin_server.boot import memory
from florin_server.cli.main import app


def main() -> None:
    """Runs `florin`."""
    # what a command imports for its work comes after this
    memory.collect_rarely()
    app()
