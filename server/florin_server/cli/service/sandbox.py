"""Commands of the sandbox, which are listed whether it is installed or not."""

from __future__ import annotations

from florin_server.app.sandbox import NOT_INSTALLED, Sandbox, find_sandbox
from florin_server.cli.console import fail


def require_sandbox(failed: str) -> Sandbox:
    """Return the sandbox; end the program with `failed` and what to do if it is not installed."""
    sandbox = find_sandbox()
    if sandbox is None:
        fail(failed, NOT_INSTALLED)
    return sandbox
