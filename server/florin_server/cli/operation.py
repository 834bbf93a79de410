"""How the operator's commands ask, and how they print what they are told."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from florin_server import settings_file
from florin_server.boot.home import Home, Refused
from florin_server.boot.operator.client import operator
from florin_server.boot.operator.error import OperatorError
from florin_server.cli.console import fail
from florin_server.cli.exits import Exit, of_status

if TYPE_CHECKING:
    from florin_server.config import Settings

T = TypeVar("T")
# what an operator may do before the first `florin up`; nothing else makes a state folder
_BEGIN = frozenset({"CreatePartner", "CreateApiKey", "RegisterWallet", "ImportScreeningList"})


def ask(given: dict[str, Any], method: str, request: Message, *, running_only: bool = False) -> Any:
    """The answer of the service, or of its store if it does not run; ends the program if refused.

    With `running_only` it takes a service that runs.
    """
    (answer,) = ask_all(given, (method, request), running_only=running_only)
    return answer


def ask_all(
    given: dict[str, Any], *calls: tuple[str, Message], running_only: bool = False
) -> list[Any]:
    """The answers to several questions, in order."""
    begins = any(method in _BEGIN for method, _ in calls)

    async def all_(service: Any) -> list[Any]:
        return [await service.ask(method, request) for method, request in calls]

    return ask_in_turn(given, all_, running_only=running_only, begins=begins)


def ask_in_turn(
    given: dict[str, Any],
    questions: Callable[[Any], Awaitable[T]],
    *,
    running_only: bool = False,
    begins: bool = False,
) -> T:
    """What questions come to whose next one depends on the answer before."""

    async def asked() -> T:
        async with operator(
            home_of(given), lambda: _settings(given), running_only=running_only, begins=begins
        ) as service:
            return await questions(service)

    try:
        return asyncio.run(asked())
    except OperatorError as error:
        refused(error)
    except (Refused, OSError) as error:
        fail("Not done", error)


def refused(error: OperatorError) -> NoReturn:
    """Ends the program as a service refused."""
    fail("Not done", error, of_status(error.status), **({"code": error.code} if error.code else {}))


def home_of(given: dict[str, Any]) -> Home:
    """The state folder that a command means; ends the program if a file does not tell it."""
    named = given.get("home", os.environ.get("FLORIN_HOME"))
    try:
        return Home(settings_file.home(None if named is None else Path(named)))
    except ValueError as error:
        fail("The settings are not valid", error, Exit.MISUSED)


def _settings(given: dict[str, Any]) -> Settings:
    # most of what settings import is for a service, and one that runs has its own
    from florin_server.cli.settings import settings_of  # noqa: PLC0415

    return settings_of(given)


def misused(why: str) -> NoReturn:
    """Ends the program: the command cannot be meant like this."""
    fail("Not done", why, Exit.MISUSED)


def mode(*, live: bool) -> str:
    """Which data somebody works with."""
    return "live" if live else "test"


def minute(told: Message, member: str) -> str:
    """A time of a message; a dash if it is not set."""
    at: Timestamp = getattr(told, member)
    return f"{at.ToDatetime():%Y-%m-%dT%H:%MZ}" if told.HasField(member) else "-"
