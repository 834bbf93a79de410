"""The command line."""

from __future__ import annotations

from florin_server.cli.main import app


def main() -> None:
    """Runs `florin`."""
    app()
