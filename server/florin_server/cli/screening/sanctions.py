"""`florin sanctions`: public lists of accounts that are not served."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Any

from florin.v1 import screening_pb2

from florin_server.cli.console import console, fail, note, plain, table, told
from florin_server.cli.operation import ask, ask_all, minute, misused
from florin_server.domain.screening import files
from florin_server.domain.screening.files import Listed

_COLUMNS = ("Name", "Addresses", "Published", "Imported", "SHA-256")
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
# half a megabyte, where a message has at most one
_PART = 10_000


def put(
    given: dict[str, Any],
    file: Path,
    name: str | None,
    published: datetime | None,
    *,
    force: bool,
) -> None:
    """Reads a file and puts it in force in place of the list of the same name."""
    name = file.stem if name is None else name
    if not _NAME.fullmatch(name):
        misused(f"a list is named with letters, digits and ._- (64 at most), not {name!r}")
    listed = _read(file)
    if published is not None:
        if listed.published is not None and listed.published != published.date():
            misused(f"the file says itself that it was published on {listed.published}")
        listed.published = published.date()
    *_, done = ask_all(given, *_parts(name, listed, force=force))
    if told({**plain(done), "leftOut": listed.left_out}):
        return
    formerly = f", {done.former.count} until now" if done.HasField("former") else ""
    console.print(f"{name} has {done.list.count} addresses{formerly}.")
    if listed.left_out:
        note(f"Left out, because they are of chains that Florin does not serve: {listed.left_out}.")


def _read(file: Path) -> Listed:
    try:
        with file.open("rb") as opened:
            return files.read(opened)
    except (OSError, ValueError) as error:
        fail(f"{file.name} was not read", error)


def _parts(name: str, listed: Listed, *, force: bool) -> list[tuple[str, Any]]:
    """The calls that hand a list over."""
    addresses = sorted(listed.addresses)
    parts = [addresses[i : i + _PART] for i in range(0, len(addresses), _PART)] or [[]]
    calls = []
    for number, part in enumerate(parts):
        request = screening_pb2.ImportScreeningListRequest(
            name=name,
            digest=listed.digest,
            part=number,
            last=number == len(parts) - 1,
            force=force,
            addresses=part,
        )
        if listed.published_at_us is not None:
            request.published_at.FromMicroseconds(listed.published_at_us)
        calls.append(("ImportScreeningList", request))
    return calls


def show(given: dict[str, Any]) -> None:
    """Prints all lists."""
    found = ask(given, "ListScreeningLists", screening_pb2.ListScreeningListsRequest())
    if not told(found):
        table(_COLUMNS, map(_row, found.lists))


def _row(one: screening_pb2.ScreeningList) -> tuple[str, ...]:
    published = minute(one, "published_at").partition("T")[0]
    return one.name, str(one.count), published, minute(one, "imported_at"), one.digest[:16]


def check(given: dict[str, Any], account: str) -> None:
    """Says whether an account is served; the lists that it is on go to stdout, one a line."""
    found = ask(given, "CheckAccount", screening_pb2.CheckAccountRequest(account=account))
    if told(found):
        return
    for name in found.lists:
        console.print(name)
    if found.blocked and not found.lists:
        note("Not served: the setting blocked_accounts names it.")
    else:
        note("Not served." if found.blocked else "Served: it is on no list.")


def remove(given: dict[str, Any], name: str) -> None:
    """Takes a list out of force."""
    ask(given, "RemoveScreeningList", screening_pb2.RemoveScreeningListRequest(name=name))
    if not told({"name": name, "removed": True}):
        console.print(f"{name} is removed.")
