"""`florin sanctions`: screening lists of blocked accounts."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Any

from florin.v1 import screening_pb2

from florin_server.cli.console import (
    console,
    fail,
    print_hint,
    print_json,
    print_table,
    to_json_value,
)
from florin_server.cli.operation import (
    call_operator,
    call_operator_all,
    format_minute,
    usage_error,
)
from florin_server.domain.screening import files
from florin_server.domain.screening.files import ScreeningFile

_COLUMNS = ("Name", "Addresses", "Published", "Imported", "SHA-256")
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
# half a megabyte; a message can have one
_PART_SIZE = 10_000


def import_list(
    overrides: dict[str, Any],
    file: Path,
    name: str | None,
    published_at: datetime | None,
    *,
    force: bool,
) -> None:
    """Import a file; it replaces the list of the same name."""
    name = file.stem if name is None else name
    if not _NAME.fullmatch(name):
        usage_error(
            f"{name[:80]!r} is not a name of a list; use up to 64 letters, digits and . _ -"
        )
    listed = _read_file(file)
    if published_at is not None:
        if listed.published is not None and listed.published != published_at.date():
            usage_error(f"the file says that it was published on {listed.published}")
        listed.published = published_at.date()
    *_, done = call_operator_all(overrides, *_build_calls(name, listed, force=force))
    if print_json({**to_json_value(done), "leftOut": listed.skipped_count}):
        return
    formerly = f", {done.former.count} before" if done.HasField("former") else ""
    console.print(f"{name} has {done.list.count} addresses{formerly}.")
    if listed.skipped_count:
        print_hint(
            f"Skipped addresses of chains that Florin does not support: {listed.skipped_count}."
        )


def _read_file(file: Path) -> ScreeningFile:
    try:
        with file.open("rb") as opened:
            return files.parse_screening_file(opened)
    except (OSError, ValueError) as error:
        fail(f"{file.name} was not imported", error)


def _build_calls(name: str, listed: ScreeningFile, *, force: bool) -> list[tuple[str, Any]]:
    """Return the calls that import a list in parts."""
    addresses = sorted(listed.addresses)
    parts = [addresses[i : i + _PART_SIZE] for i in range(0, len(addresses), _PART_SIZE)] or [[]]
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


def list_lists(overrides: dict[str, Any]) -> None:
    """Print all lists."""
    result = call_operator(
        overrides, "ListScreeningLists", screening_pb2.ListScreeningListsRequest()
    )
    if not print_json(result):
        print_table(_COLUMNS, map(_to_row, result.lists))


def _to_row(screening_list: screening_pb2.ScreeningList) -> tuple[str, ...]:
    published = format_minute(screening_list, "published_at").partition("T")[0]
    return (
        screening_list.name,
        str(screening_list.count),
        published,
        format_minute(screening_list, "imported_at"),
        screening_list.digest[:16],
    )


def check_account(overrides: dict[str, Any], account: str) -> None:
    """Print the lists that contain an account, one per line, and a hint whether it is blocked."""
    result = call_operator(
        overrides, "CheckAccount", screening_pb2.CheckAccountRequest(account=account)
    )
    if print_json(result):
        return
    for name in result.lists:
        console.print(name)
    if result.blocked and not result.lists:
        print_hint("Blocked: the setting blocked_accounts contains it.")
    else:
        print_hint("Blocked." if result.blocked else "Not blocked: it is on no list.")


def remove_list(overrides: dict[str, Any], name: str) -> None:
    """Remove a list."""
    call_operator(
        overrides, "RemoveScreeningList", screening_pb2.RemoveScreeningListRequest(name=name)
    )
    if not print_json({"name": name, "removed": True}):
        console.print(f"{name} is removed.")
