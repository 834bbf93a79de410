"""The operator's screening lists: imported part by part, put in force as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from florin_server.compliance.screening import store as blocklists
from florin_server.compliance.screening.context import ScreeningContext
from florin_server.compliance.screening.service.check import is_blocked
from florin_server.db.context import StorageContext
from florin_server.db.engine.query import Op, operation
from florin_server.domain.audit import AuditAction, AuditChange, AuditObject, list_changes
from florin_server.domain.caip import parse_account
from florin_server.domain.errors import validation_error
from florin_server.domain.screening.blocklist import BlockedAddress, ScreeningList, find_address
from florin_server.operations.service.audit_log import audited


class _Context(ScreeningContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


# public lists have some hundreds; the one transaction that writes this many can delay payments for
# a second
ADDRESSES_MAX = 50_000
_DAY_US = 86_400_000_000


@dataclass(frozen=True, slots=True)
class ScreeningListSource:
    """The source of a list: its name, its file's SHA-256 in hex, and its time of publication."""

    name: str
    digest: str
    published_at_us: int | None


@dataclass(slots=True)
class ScreeningImport:
    """A list whose last part has not come yet."""

    source: ScreeningListSource | None = None
    parts: int = 0
    addresses: set[BlockedAddress] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class ScreeningImportResult:
    """The list that is current now, and the one that it replaced."""

    current: ScreeningList
    previous: ScreeningList | None


async def add_part(
    app: StorageContext,
    import_: ScreeningImport,
    source: ScreeningListSource,
    part: int,
    addresses: Sequence[str],
) -> None:
    """Take the next part of a list; part 0 starts, and drops an earlier import.

    ApiError(params_validation) if it is not the next one, or an address has an unknown form.
    """
    if part == 0:
        _check_date(source, app.clock.now_us())
        import_.source, import_.parts, import_.addresses = source, 0, set()
    if source != import_.source or part != import_.parts:
        raise validation_error(
            "part", "a part is missing, or another import started meanwhile: start the import again"
        )
    import_.addresses.update(_parse_addresses(addresses))
    import_.parts += 1
    if len(import_.addresses) > ADDRESSES_MAX:
        import_.source = None
        raise validation_error("addresses", f"a list can have at most {ADDRESSES_MAX} addresses")


async def finish_import(
    app: _Context, import_: ScreeningImport, *, force: bool
) -> ScreeningImportResult:
    """Replace the former list of the same name by the imported parts.

    Without `force`, refuses a list that lost most of its addresses, or is older than the stored
    one: the file is broken, or the wrong one.
    """
    source, addresses = import_.source, import_.addresses
    if source is None:
        raise validation_error("part", "no import has started")
    import_.source, import_.addresses = None, set()
    now_us = app.clock.now_us()
    new = ScreeningList(source.name, source.digest, source.published_at_us, now_us, len(addresses))
    work = _replace(new, addresses, force=force)
    former = await app.store.write(audited(app, work, lambda replaced: _describe(replaced, new)))
    await app.screening.publish_change()
    return ScreeningImportResult(new, former)


@operation
def _replace(
    new_list: ScreeningList, addresses: set[BlockedAddress], *, force: bool
) -> Op[ScreeningList | None]:
    former = yield from blocklists.find(new_list.name)
    if not force and (doubt := _describe_doubt(new_list, former)):
        raise validation_error("addresses", doubt)
    yield from blocklists.replace(new_list, addresses)
    return former


def _describe(before: ScreeningList | None, after: ScreeningList) -> AuditChange:
    former = {} if before is None else {"addresses": before.count, "sha256": before.digest}
    changes = list_changes(former, {"addresses": after.count, "sha256": after.digest})
    return AuditChange(
        AuditAction.SCREENING_LIST_IMPORTED,
        AuditObject.SCREENING_LIST,
        after.name,
        changes=changes,
    )


def _describe_doubt(new_list: ScreeningList, previous: ScreeningList | None) -> str:
    """Return why a list may be wrong; empty if nothing indicates that."""
    if not new_list.count:
        return "the list has no address that Florin can screen"
    if previous is None:
        return ""
    if new_list.count * 2 < previous.count:
        return f"the list has {new_list.count} addresses, and the current list has {previous.count}"
    if new_list.published_at_us is not None and new_list.published_at_us < (
        previous.published_at_us or 0
    ):
        return "the list is older than the current list"
    return ""


def _check_date(source: ScreeningListSource, now_us: int) -> None:
    # in some time zone it is tomorrow already; a later date would keep the list young forever
    if source.published_at_us is not None and source.published_at_us > now_us + _DAY_US:
        raise validation_error("publishedAt", "is in the future")


def _parse_addresses(texts: Sequence[str]) -> Iterator[BlockedAddress]:
    for index, text in enumerate(texts):
        if (address := find_address(text)) is None:
            raise validation_error(
                f"addresses[{index}]", "is not an address of a chain that Florin supports"
            )
        yield address


async def remove(app: _Context, name: str) -> None:
    """Remove a list. ApiError(params_validation) if no list has the name."""
    change = AuditChange(AuditAction.SCREENING_LIST_REMOVED, AuditObject.SCREENING_LIST, name)
    work = audited(app, blocklists.remove(name), lambda removed: change if removed else None)
    if not await app.store.write(work):
        raise validation_error("name", "no screening list has this name")
    await app.screening.publish_change()


@dataclass(frozen=True, slots=True)
class ScreeningResult:
    """The verdict on an account: whether it is served, and the lists that its address is on."""

    is_blocked: bool
    lists: list[str]


async def check(app: _Context, text: str) -> ScreeningResult:
    """Look an account up: CAIP-10, or an address alone."""
    address = find_address(text)
    if address is None:
        try:
            account = parse_account(text)
        except ValueError as error:
            raise validation_error("account", "must be a CAIP-10 account or an address") from error
        address = find_address(account.address)
        if address is None or address[0] != account.chain.namespace:
            raise validation_error("account", "is not an address of a chain that Florin supports")
    lists = await app.store.read(blocklists.list_matches(*address))
    # any chain of the namespace works
    blocked = await is_blocked(app, f"{address[0]}:0:{address[1]}")
    return ScreeningResult(blocked, lists)
