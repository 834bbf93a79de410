"""How the operator's commands ask, and how they print what they are told."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, NoReturn

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from florin_server.boot.home import Refused
from florin_server.boot.operator.client import operator
from florin_server.boot.operator.error import OperatorError
from florin_server.cli.console import console, fail, settings_of

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

    async def asked() -> list[Any]:
        async with operator(
            settings_of(given), running_only=running_only, begins=begins
        ) as service:
            return [await service.ask(method, request) for method, request in calls]

    try:
        return asyncio.run(asked())
    except (OperatorError, Refused, OSError) as error:
        fail("Not done", error)


def misused(why: str) -> NoReturn:
    """Ends the program: the command cannot be meant like this."""
    fail("Not done", why, 2)


def table(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    """Prints a table: whole ids, however narrow the terminal, for they are there to be copied."""
    lines = [columns, *rows]
    # names of any width stand last, where they move nothing
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        console.print("  ".join(map(str.ljust, line, widths)).rstrip(), markup=False)


def mode(*, live: bool) -> str:
    """Which data somebody works with."""
    return "live" if live else "test"


def minute(told: Message, member: str) -> str:
    """A time of a message; a dash if it is not set."""
    at: Timestamp = getattr(told, member)
    return f"{at.ToDatetime():%Y-%m-%dT%H:%MZ}" if told.HasField(member) else "-"
