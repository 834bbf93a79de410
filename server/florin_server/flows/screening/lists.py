"""The operator's screening lists: imported part by part, put in force as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from florin_server.domain.caip import parse_account
from florin_server.domain.errors import invalid
from florin_server.domain.screening.blocklist import Address, ScreeningList, address_of
from florin_server.flows.app import App
from florin_server.flows.screening.check import is_blocked
from florin_server.store.engine.query import Op, operation
from florin_server.store.screening import blocklists

# public lists have some hundreds; the one transaction that writes so many may hold payments up for
# a second
ADDRESSES_MAX = 50_000
_DAY_US = 86_400_000_000


@dataclass(frozen=True, slots=True)
class Source:
    """What a list is made from: its name, its file's SHA-256 in hex, and when it was published."""

    name: str
    digest: str
    published_at_us: int | None


@dataclass(slots=True)
class Import:
    """A list whose last part has not come yet."""

    source: Source | None = None
    parts: int = 0
    addresses: set[Address] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Imported:
    """A list that is in force now, and the one that it replaced."""

    now: ScreeningList
    former: ScreeningList | None


async def add_part(
    app: App, under_way: Import, source: Source, part: int, addresses: Sequence[str]
) -> None:
    """Takes the next part of a list; part 0 begins, and forgets what was begun before.

    FlorinError(params_validation) if it is not the next one, or an address is of no known form.
    """
    if part == 0:
        _check_date(source, app.clock.now_us())
        under_way.source, under_way.parts, under_way.addresses = source, 0, set()
    if source != under_way.source or part != under_way.parts:
        raise invalid("part", "another import came in between, or a part was lost; begin again")
    under_way.addresses.update(_addresses(addresses))
    under_way.parts += 1
    if len(under_way.addresses) > ADDRESSES_MAX:
        under_way.source = None
        raise invalid("addresses", f"a list has at most {ADDRESSES_MAX} addresses")


async def finish(app: App, under_way: Import, *, force: bool) -> Imported:
    """Puts the list whose parts have come in the place of the former one of its name.

    Without `force`, refuses a list that lost most of its addresses, or is older than the stored
    one: the file is broken, or the wrong one.
    """
    source, addresses = under_way.source, under_way.addresses
    if source is None:
        raise invalid("part", "no import has begun")
    under_way.source, under_way.addresses = None, set()
    now_us = app.clock.now_us()
    new = ScreeningList(source.name, source.digest, source.published_at_us, now_us, len(addresses))
    former = await app.store.write(_replace(new, addresses, force=force))
    await app.screening.changed()
    return Imported(new, former)


@operation
def _replace(
    new: ScreeningList, addresses: set[Address], *, force: bool
) -> Op[ScreeningList | None]:
    former = yield from blocklists.find(new.name)
    if not force and (doubt := _doubt(new, former)):
        raise invalid("addresses", doubt)
    yield from blocklists.replace(new, addresses)
    return former


def _doubt(new: ScreeningList, former: ScreeningList | None) -> str:
    """Why a list may not be what it should be; empty if nothing speaks against it."""
    if not new.count:
        return "the list has no address that could be screened"
    if former is None:
        return ""
    if new.count * 2 < former.count:
        return f"the list has {new.count} addresses, and {former.count} until now"
    if new.published_at_us is not None and new.published_at_us < (former.published_at_us or 0):
        return "the list is older than the one that is in force"
    return ""


def _check_date(source: Source, now_us: int) -> None:
    # somewhere it is tomorrow already; a later date would keep the list young for ever
    if source.published_at_us is not None and source.published_at_us > now_us + _DAY_US:
        raise invalid("publishedAt", "lies in the future")


def _addresses(texts: Sequence[str]) -> Iterator[Address]:
    for index, text in enumerate(texts):
        if (address := address_of(text)) is None:
            raise invalid(f"addresses[{index}]", "is on no chain that can be served")
        yield address


async def remove(app: App, name: str) -> None:
    """Takes a list out of force. FlorinError(params_validation) if there is none of the name."""
    if not await app.store.write(blocklists.remove(name)):
        raise invalid("name", "there is no such list")
    await app.screening.changed()


@dataclass(frozen=True, slots=True)
class Checked:
    """Whether an account is served, and the lists that its address is on."""

    blocked: bool
    lists: list[str]


async def check(app: App, text: str) -> Checked:
    """Looks an account up: CAIP-10, or an address alone."""
    address = address_of(text)
    if address is None:
        try:
            account = parse_account(text)
        except ValueError as error:
            raise invalid("account", "is neither a CAIP-10 account nor an address") from error
        address = address_of(account.address)
        if address is None or address[0] != account.chain.namespace:
            raise invalid("account", "is on no chain that can be served")
    lists = await app.store.read(blocklists.on(*address))
    # any chain of the namespace will do
    blocked = await is_blocked(app, f"{address[0]}:0:{address[1]}")
    return Checked(blocked, lists)
