"""The `florin` command, whose supervisor restarts at once what a test has killed.

python -m tests.support.fast_restarts serve --workers 2
"""

from __future__ import annotations

from florin_server.app.processes import backoff
from florin_server.cli.main import app

backoff.INITIAL_S = backoff.MAX_S = 0.05  # type: ignore[misc]

if __name__ == "__main__":
    app()
