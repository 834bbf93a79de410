"""Accounts that are opened for receivers: those that wait, those that were, and how many a day.

Whoever owns an account may close it and keep the rent that we paid. So a place is opened once: who
opens it claims it before, in the same commit that lets the transaction go, and has it for good
unless that transaction provably opened nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from sqlalchemy import delete, func, select

from florin_server.domain.accounts.destinations import AssetAccount, DailyCaps, Opening
from florin_server.store.engine.query import (
    Op,
    Statement,
    StoreError,
    any_of,
    insert,
    operation,
    param,
)
from florin_server.store.tables.tables import (
    account_to_open,
    installation,
    merchant,
    opened_account,
)

# more than an operator opens in a week; whoever comes later has an account opened by a payment
QUEUE_MAX = 1000
# more than a merchant has tokens; who changes destinations again and again fills its own share only
MERCHANT_QUEUE_MAX = 10

_DAY_US = 86_400 * 1_000_000


class NotOpenable(StoreError):  # noqa: N818  (a state of the world, not a mistake)
    """A place was opened before, or too many were today; nothing was written."""

    passes = True


_QUEUED = account_to_open.c
_OPENED = opened_account.c
_KEY = ["asset", "account"]
_WANT = Statement(insert(account_to_open).on_conflict_do_nothing(index_elements=_KEY))
_QUEUE = Statement(
    select(_QUEUED.asset, _QUEUED.account, _QUEUED.merchant_id)
    .where(_QUEUED.chain_id == param("chain_id"))
    .order_by(_QUEUED.at_us, _QUEUED.asset, _QUEUED.account)
)
_DROP = Statement(
    delete(account_to_open).where(
        _QUEUED.asset == param("asset_"), _QUEUED.account == param("account_")
    )
)
_CLAIM = Statement(
    insert(opened_account)
    .on_conflict_do_nothing(index_elements=_KEY)
    .returning(opened_account.c.asset)
)
_lock = insert(installation)
# a row of the chain's own, which whoever opens accounts there changes first: caps count the others
_LOCK = Statement(
    _lock.on_conflict_do_update(index_elements=["name"], set_={"value": _lock.excluded.value})
)
_KNOWN = Statement(
    select(_OPENED.asset, _OPENED.account).where(
        any_of(_OPENED.asset, "assets"), any_of(_OPENED.account, "accounts")
    )
)
_OF_DAY = Statement(
    select(_OPENED.merchant_id, func.count())
    .where(_OPENED.chain_id == param("chain_id"), _OPENED.day == param("day"))
    .group_by(_OPENED.merchant_id)
)
_PARTNERS = Statement(
    select(merchant.c.id, merchant.c.partner_id).where(any_of(merchant.c.id, "ids"))
)
_FREE = Statement(delete(opened_account).where(any_of(_OPENED.opened_by, "ids")))


class _Room:
    """How much of a day's caps is left on a chain. Our own places count, and always have room.

    `partners` holds the partner of each merchant that opened something, or wants to.
    """

    def __init__(
        self, caps: DailyCaps, opened: Mapping[str | None, int], partners: Mapping[str, str]
    ) -> None:
        self._caps = caps
        self._opened = dict(opened)
        self._partners = partners

    def take(self, merchant_id: str | None) -> bool:
        """True if one more may be opened; it counts from then on."""
        count = self._opened.get(merchant_id, 0)
        if merchant_id is not None and (
            sum(self._opened.values()) >= self._caps.chain
            or self._of_partner(merchant_id) >= self._caps.partner
            or count >= self._caps.merchant
        ):
            return False
        self._opened[merchant_id] = count + 1
        return True

    def _of_partner(self, merchant_id: str) -> int:
        partner_id = self._partners.get(merchant_id, merchant_id)
        return sum(
            count
            for other, count in self._opened.items()
            if other is not None and self._partners.get(other, other) == partner_id
        )


@operation
def want(wanted: Opening, now_us: int) -> Op[None]:
    """Queues a place, unless it was opened before, or too many wait."""
    place, merchant_id = wanted.place, wanted.merchant_id
    if (yield from _known([place])):
        return
    queued = [row[2] for row in (yield _QUEUE(chain_id=place.chain_id))]
    mine = queued.count(merchant_id) if merchant_id is not None else 0
    if len(queued) < QUEUE_MAX and mine < MERCHANT_QUEUE_MAX:
        yield _WANT(
            asset=place.asset,
            account=place.account,
            chain_id=place.chain_id,
            merchant_id=merchant_id,
            at_us=now_us,
        )


@operation
def wanted(chain_id: str, caps: DailyCaps, most: int, now_us: int) -> Op[list[Opening]]:
    """Places of a chain that wait and may be opened today, the oldest first."""
    rows = yield _QUEUE(chain_id=chain_id)
    room = yield from _room(chain_id, caps, now_us, [row[2] for row in rows])
    found: list[Opening] = []
    for asset, account, merchant_id in rows:
        if len(found) < most and room.take(merchant_id):
            found.append(Opening(AssetAccount(asset, account), merchant_id))
    return found


@operation
def openable(
    openings: Sequence[Opening], caps: DailyCaps, now_us: int
) -> Op[frozenset[AssetAccount]]:
    """The places, of one chain, that were never opened and may be today, each by itself."""
    if not openings:
        return frozenset()
    known = yield from _known([one.place for one in openings])
    today = yield from _today(openings[0].place.chain_id, now_us)
    partners = yield from _partners([*today, *(one.merchant_id for one in openings)])
    return frozenset(
        one.place
        for one in openings
        if one.place not in known and _Room(caps, today, partners).take(one.merchant_id)
    )


@operation
def claim(openings: Sequence[Opening], caps: DailyCaps, opened_by: str, now_us: int) -> Op[None]:
    """Part of an operation: places, of one chain, are opened by something that is let go now.

    They are in the queue no longer. NotOpenable if a merchant's was opened before, or today's caps
    are reached. Our own treasury's may come with several payments at a time: nobody takes its rent.
    """
    if not openings:
        return
    chain_id = openings[0].place.chain_id
    yield _LOCK(name=f"openings:{chain_id}", value="")
    room = yield from _room(chain_id, caps, now_us, [one.merchant_id for one in openings])
    yield from drop([one.place for one in openings])
    for one in openings:
        taken = yield _CLAIM(
            asset=one.place.asset,
            account=one.place.account,
            chain_id=one.place.chain_id,
            merchant_id=one.merchant_id,
            day=now_us // _DAY_US,
            opened_by=opened_by,
            at_us=now_us,
        )
        if one.merchant_id is None:
            continue
        if not taken:
            raise NotOpenable(f"an account was opened for {one.place.account} before")
        if not room.take(one.merchant_id):
            raise NotOpenable(f"too many accounts were opened today: {one.place.account} waits")


@operation
def free(opened_by: Collection[str]) -> Op[None]:
    """Part of an operation: what was to be opened by something is not, as the chain proves."""
    if opened_by:
        yield _FREE(ids=opened_by)


@operation
def drop(places: Sequence[AssetAccount]) -> Op[None]:
    """Part of an operation: takes places out of the queue."""
    yield _DROP.many([{"asset_": one.asset, "account_": one.account} for one in places])


def _known(places: Sequence[AssetAccount]) -> Op[set[AssetAccount]]:
    """Those of the places that were opened before."""
    rows = yield _KNOWN(
        assets={one.asset for one in places}, accounts={one.account for one in places}
    )
    return {AssetAccount(*row) for row in rows}.intersection(places)


def _today(chain_id: str, now_us: int) -> Op[dict[str | None, int]]:
    """How many places were opened today, by merchant."""
    return dict([tuple(row) for row in (yield _OF_DAY(chain_id=chain_id, day=now_us // _DAY_US))])


def _room(
    chain_id: str, caps: DailyCaps, now_us: int, merchants: Iterable[str | None]
) -> Op[_Room]:
    today = yield from _today(chain_id, now_us)
    return _Room(caps, today, (yield from _partners([*today, *merchants])))


def _partners(merchants: Iterable[str | None]) -> Op[dict[str, str]]:
    """Return the partner of each merchant."""
    ids = {one for one in merchants if one is not None}
    return {row[0]: row[1] for row in (yield _PARTNERS(ids=ids))}
