"""The books against the chains: what every wallet holds, and why it holds something else.

A difference that work under way explains is none. What a wallet lacks is a shortage, the one thing
that alarms; what it has too much is unbooked until the operator says that it was a deposit.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from florin_server.domain import cursor
from florin_server.domain.caip import canonical_account, canonical_asset
from florin_server.domain.errors import Code, FlorinError, invalid
from florin_server.domain.ids import short_id
from florin_server.domain.ledger.accounts import Kind
from florin_server.domain.quarantine import ItemKind
from florin_server.flows.app import App
from florin_server.flows.ledger import postings
from florin_server.rails.protocol import Rail
from florin_server.rails.types import RailUnavailable
from florin_server.store.engine.query import Op, on_snapshot
from florin_server.store.ledger import books, ledger
from florin_server.store.ledger.books import Chain, Entry, Standing, WalletAsset, opening_of
from florin_server.store.payments import history
from florin_server.store.payouts import payouts

_log = logging.getLogger(__name__)

# looks at books and chain until nothing changed in between; a busy service is told as such
_LOOKS = 3
NOTE_MAX = 256
# balances in one answer, if the caller does not say
BALANCES = 200


class Verdict(StrEnum):
    """What a difference between books and chain means."""

    EXACT = "exact"
    UNDER_WAY = "under_way"  # work that is not done explains the difference
    UNBOOKED = "unbooked"  # the wallet holds more
    MISSING = "missing"  # the wallet holds less
    NOT_BEGUN = "not_begun"  # the books of the wallet have not begun
    NOT_READ = "not_read"  # the chain was not asked, or did not answer


@dataclass(frozen=True, slots=True)
class Line:
    """One wallet in one asset, in minor units. `held` is None if the chain was not read.

    `coming` and `going` are the most that work under way may move; `busy` tells that there is more
    whose amount is not known.
    """

    place: WalletAsset
    booked: int
    held: int | None
    opened: bool
    coming: int = 0
    going: int = 0
    busy: bool = False

    @property
    def difference(self) -> int:
        """What the wallet holds beyond what is booked."""
        return 0 if self.held is None else self.held - self.booked

    @property
    def quiet(self) -> bool:
        """True if nothing is under way."""
        return not (self.coming or self.going or self.busy)

    @property
    def verdict(self) -> Verdict:
        """What the difference means."""
        if self.held is None:
            return Verdict.NOT_READ
        if not self.difference:
            return Verdict.EXACT if self.opened else Verdict.NOT_BEGUN
        if self.busy or -self.going <= self.difference <= self.coming:
            return Verdict.UNDER_WAY
        if self.difference < 0:
            return Verdict.MISSING
        return Verdict.UNBOOKED if self.opened else Verdict.NOT_BEGUN


@dataclass(frozen=True, slots=True)
class Comparison:
    """Every wallet, and the chains (CAIP-2) that were not read, with the reason."""

    lines: Sequence[Line]
    unread: Mapping[str, str]

    def missing(self, chain_id: str = "") -> list[Line]:
        """Wallets that lack something, of one chain or all."""
        return [
            one
            for one in self.lines
            if one.verdict is Verdict.MISSING and _on(one.place, chain_id or _chain(one.place))
        ]


@dataclass(frozen=True, slots=True)
class Check:
    """What is wrong with the books in themselves, in sentences, and how they compare."""

    problems: Sequence[str]
    comparison: Comparison


@dataclass(frozen=True, slots=True)
class BalanceList:
    """A page of (account, asset, debits less credits); `next_cursor` is empty on the last one."""

    balances: Sequence[tuple[str, str, int]]
    next_cursor: str


def describe(line: Line) -> str:
    """What a wallet lacks, in a sentence."""
    account, asset = line.place
    lacking = -line.difference - line.going
    return f"{account} holds {lacking} minor units of {asset} less than is booked"


async def check(app: App) -> Check:
    """Proves the books and the histories of payments, and compares wallets with every chain."""
    wrong = [
        problem
        for op in (ledger.check(), payouts.check(), history.check())
        for problem in await app.store.survey(op)
    ]
    return Check(wrong, await compare(app))


async def compare(app: App, rails: Iterable[Rail] | None = None) -> Comparison:
    """Compares the books with some chains, or all; one batched read of each."""
    chosen = list(app.rails.values() if rails is None else rails)
    chains = chains_of(chosen)
    before = await app.store.survey(books.standing(chains))
    for _ in range(_LOOKS):
        held, unread = await _read(app, chosen, before)
        after = await app.store.survey(books.standing(chains))
        lines = _lines(chosen, held, before, after)
        if after == before:
            break
        before = after
    here = chains.keys() | unread.keys()
    if rails is None:
        absent = {_chain(one.place) for one in lines} - here
        unread |= dict.fromkeys(absent, "it is not running here")
    return Comparison(lines, unread)


async def _read(
    app: App, rails: Sequence[Rail], now: Standing
) -> tuple[dict[WalletAsset, int], dict[str, str]]:
    """What the wallets hold, and the chains that did not tell, with the reason."""
    held: dict[WalletAsset, int] = {}
    unread: dict[str, str] = {}
    for rail in rails:
        try:
            held |= await _holdings(app, rail, _places(rail, now))
        except RailUnavailable as error:
            unread[rail.chain_id] = str(error) or type(error).__name__
    return held, unread


async def _holdings(
    app: App, rail: Rail, places: Collection[WalletAsset]
) -> dict[WalletAsset, int]:
    """Return what wallets hold; one whose reading fails unexpectedly is set aside."""
    quarantine, chain_id = app.quarantine, rail.chain_id
    left = [
        place
        for place in sorted(places)
        if not quarantine.holds(ItemKind.WALLET, chain_id, "/".join(place))
    ]
    held: dict[WalletAsset, int] = {}
    for found in await quarantine.each(
        ItemKind.WALLET,
        chain_id,
        left,
        "/".join,
        "read its balance",
        lambda part: rail.observer.holdings(part, _seen(app, rail)),
    ):
        held |= found
    return held


def _lines(
    rails: Sequence[Rail], held: Mapping[WalletAsset, int], before: Standing, after: Standing
) -> list[Line]:
    coins = {rail.native_asset: rail.chain_id for rail in rails}
    places = {place for rail in rails for place in _places(rail, after)} | after.held.keys()
    lines = []
    for place in sorted(places):
        booked = after.held.get(place, 0)
        sends = {*before.sending, *after.sending}
        lines.append(
            Line(
                place=place,
                booked=booked,
                held=held.get(place),
                opened=opening_of(place) in after.opened,
                coming=max(before.coming.get(place, 0), after.coming.get(place, 0)),
                going=max(before.going.get(place, 0), after.going.get(place, 0)),
                busy=coins.get(place[1]) in sends or before.held.get(place, 0) != booked,
            )
        )
    return lines


def chains_of(rails: Iterable[Rail]) -> dict[str, Chain]:
    """What the store must know of chains."""
    return {rail.chain_id: Chain(rail.treasury, partial(postings.received, rail)) for rail in rails}


def _places(rail: Rail, now: Standing) -> set[WalletAsset]:
    """What is booked on a chain, and what can be."""
    coins = {(account, rail.native_asset) for account in postings.wallets_of(rail)}
    known = {(rail.treasury, asset) for asset in rail.assets}
    booked = {place for place in now.held if _on(place, rail.chain_id)}
    return coins | known | booked


def _seen(app: App, rail: Rail) -> int:
    """The newest block of which the books may tell."""
    workers = (app.settlers.get(rail.chain_id), app.payout_workers.get(rail.chain_id))
    return max((one.head for one in workers if one is not None), default=0)


def _chain(place: WalletAsset) -> str:
    return place[1].partition("/")[0]


def _on(place: WalletAsset, chain_id: str) -> bool:
    return _chain(place) == chain_id


# ---- beginning


async def begin(app: App, rail: Rail) -> bool:
    """Begins the books of what a chain's wallets hold and nobody booked; False if some must wait.

    Only where nothing is under way, so that what was on its way is not booked twice.
    RailUnavailable if the chain did not tell.
    """
    chains = chains_of([rail])
    seen = await app.store.survey(books.standing(chains))
    wanted = {place for place in _places(rail, seen) if opening_of(place) not in seen.opened}
    if not wanted:
        return True
    held = await _holdings(app, rail, wanted)
    begun = await app.store.write(_begin(rail, chains, seen, held, app.clock.now_us()))
    return begun >= wanted


@on_snapshot
def _begin(
    rail: Rail,
    chains: Mapping[str, Chain],
    seen: Standing,
    held: Mapping[WalletAsset, int],
    now_us: int,
) -> Op[set[WalletAsset]]:
    now = yield from books.standing(chains)
    lines = {one.place: one for one in _lines([rail], held, seen, now)}
    begun = {
        place: lines[place].difference
        for place in held
        if lines[place].quiet and lines[place].difference >= 0
    }
    yield from books.begin(begun, now_us)
    return set(begun)


# ---- what the operator says


async def book(app: App, account: str, asset: str, note: str) -> Line:
    """Books the whole difference of a wallet in one asset as the operator's own doing.

    Answers the line as it was. params_validation for a wallet that is not ours, invalid_state
    while something is under way there, if there is no difference, or if the chain cannot be read.
    """
    try:
        place = (canonical_account(account), canonical_asset(asset.removeprefix("caip19/")))
    except ValueError as fault:
        raise invalid("account", "must be a CAIP-10 account with a CAIP-19 asset") from fault
    rail = app.rails.get(_chain(place))
    if rail is None:
        raise invalid("account", "no such chain is here")
    chains = chains_of([rail])
    seen = await app.store.survey(books.standing(chains))
    if place not in _places(rail, seen):
        raise invalid("account", "the books have no such wallet")
    try:
        held = await rail.observer.holdings([place], _seen(app, rail))
    except RailUnavailable as error:
        raise FlorinError(Code.INVALID_STATE, f"The chain cannot be read: {error}") from error
    key = short_id("book_", app.randbytes)
    done = await app.store.write(_book(rail, chains, seen, held, key, note, app.clock.now_us()))
    _log.warning("the operator booked %d of %s for %s: %s", done.difference, *place[::-1], note)
    return done


@on_snapshot
def _book(  # noqa: PLR0917  (one of each, none alike)
    rail: Rail,
    chains: Mapping[str, Chain],
    seen: Standing,
    held: Mapping[WalletAsset, int],
    key: str,
    note: str,
    now_us: int,
) -> Op[Line]:
    (place,) = held
    now = yield from books.standing(chains)
    (line,) = [one for one in _lines([rail], held, seen, now) if one.place == place]
    if not line.opened:
        raise FlorinError(Code.INVALID_STATE, "The books of the wallet have not begun")
    if not line.quiet:
        raise FlorinError(Code.INVALID_STATE, "Something is under way there: ask again later")
    if not line.difference:
        raise FlorinError(Code.INVALID_STATE, "There is no difference")
    yield from books.by_operator(key, place, line.difference, note, now_us)
    return line


async def list_balances(
    app: App, kind: Kind | None = None, after: str = "", limit: int | None = None
) -> BalanceList:
    """Return a page of the balances of accounts; `after` is the cursor of the page before.

    FlorinError invalid_params for a cursor of another list.
    """
    binding = json.dumps(["balances", kind])
    position = cursor.decode(after, binding, str, str) if after else None
    page = await app.store.survey(books.list_balances(kind, position, limit or BALANCES))
    return BalanceList(page.balances, cursor.encode(page.last, binding) if page.last else "")


async def entries(app: App, payment_id: str) -> list[Entry]:
    """What was booked for a payment, the oldest first."""
    return await app.store.survey(books.entries(payment_id))
