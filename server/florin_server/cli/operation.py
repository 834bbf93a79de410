"""Call the operator's API for commands, and format its answers."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from florin_server.app.home import SetupError, StateFolder
from florin_server.app.operator.client import open_operator
from florin_server.app.operator.error import OperatorError
from florin_server.base import settings_file
from florin_server.cli.console import fail
from florin_server.cli.exits import ExitStatus, from_grpc_status

if TYPE_CHECKING:
    from florin_server.settings import Settings

T = TypeVar("T")
# allowed before the first `florin up`; no other method creates a state folder
_CREATING_METHODS = frozenset(
    {"CreatePartner", "CreateApiKey", "RegisterWallet", "ImportScreeningList"}
)


def call_operator(
    overrides: dict[str, Any], method: str, request: Message, *, running_only: bool = False
) -> Any:
    """Return the answer of the service, or of its store if it does not run.

    End the program if the call is refused, or if `running_only` is set and no service runs.
    """
    (answer,) = call_operator_all(overrides, (method, request), running_only=running_only)
    return answer


def call_operator_all(
    overrides: dict[str, Any], *calls: tuple[str, Message], running_only: bool = False
) -> list[Any]:
    """Return the answers to several calls, in order."""
    may_create = any(method in _CREATING_METHODS for method, _ in calls)

    async def make_calls(service: Any) -> list[Any]:
        return [await service.call(method, request) for method, request in calls]

    return run_with_operator(
        overrides, make_calls, running_only=running_only, may_create=may_create
    )


def run_with_operator(
    overrides: dict[str, Any],
    make_calls: Callable[[Any], Awaitable[T]],
    *,
    running_only: bool = False,
    may_create: bool = False,
) -> T:
    """Run dependent calls in sequence and return their result; end the program on an error."""

    async def run_calls() -> T:
        async with open_operator(
            get_home(overrides),
            lambda: _settings(overrides),
            running_only=running_only,
            may_create=may_create,
        ) as service:
            return await make_calls(service)

    try:
        return asyncio.run(run_calls())
    except OperatorError as error:
        fail_with_operator_error(error)
    except (SetupError, OSError) as error:
        fail("Not done", error)


def fail_with_operator_error(error: OperatorError) -> NoReturn:
    """End the program with the error and the status of a refused call."""
    fail(
        "Not done",
        error,
        from_grpc_status(error.status),
        **({"code": error.code} if error.code else {}),
    )


def get_home(overrides: dict[str, Any]) -> StateFolder:
    """Return the state folder of a command; end the program if florin.toml is not valid."""
    home = overrides.get("home", os.environ.get("FLORIN_HOME"))
    try:
        return StateFolder(settings_file.resolve_home(None if home is None else Path(home)))
    except ValueError as error:
        fail("The settings are not valid", error, ExitStatus.USAGE_ERROR)


def _settings(overrides: dict[str, Any]) -> Settings:
    # slow to load, and a running service has its own settings
    from florin_server.cli.settings import get_settings  # noqa: PLC0415

    return get_settings(overrides)


def usage_error(message: str) -> NoReturn:
    """End the program with a usage error."""
    fail("Not done", message, ExitStatus.USAGE_ERROR)


def format_mode(*, live: bool) -> str:
    """Return the name of the mode: live or test."""
    return "live" if live else "test"


def format_age(at: Timestamp) -> str:
    """Format how long ago a time was, e.g. 4 min ago."""
    seconds = max(0, int(time.time()) - at.seconds)
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit} ago"
    return "now"


def format_minute(message: Message, member: str) -> str:
    """Format a time of a message to the minute, in UTC; a dash if it is not set."""
    timestamp: Timestamp = getattr(message, member)
    return f"{timestamp.ToDatetime():%Y-%m-%dT%H:%MZ}" if message.HasField(member) else "-"
