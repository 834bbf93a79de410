"""Accounts opened for receivers: the queue, the opened accounts, and the daily counts.

An account's owner can close it and keep the rent that we paid. A place is therefore opened only
once: it is claimed before, in the commit that allows the transaction, and stays claimed unless that
transaction provably opened nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import delete, func, select

from florin_server.db.engine.query import (
    Command,
    Op,
    Statement,
    StoreError,
    insert,
    is_in,
    operation,
    param,
)
from florin_server.db.tables.tables import (
    account_to_open_table,
    installation_table,
    merchant_table,
    opened_account_table,
)
from florin_server.domain.accounts.destinations import (
    AssetAccount,
    DailyOpeningCaps,
    TokenAccountOpening,
)

# more than an operator opens in a week; for later places a payment opens the account
QUEUE_MAX = 1000
# more than a merchant has tokens; frequent changes of destinations fill only the merchant's own
# share
MERCHANT_QUEUE_MAX = 10

_DAY_US = 86_400 * 1_000_000


class AccountNotOpenable(StoreError):  # noqa: N818  (a state of the world, not a mistake)
    """A place was opened before, or today's cap is reached; nothing was written."""

    is_transient = True


_QUEUED = account_to_open_table.c
_OPENED = opened_account_table.c
_KEY = ["asset", "account"]


class _QueuedAccount(NamedTuple):
    asset: str
    account: str
    merchant_id: str | None


class _MerchantCount(NamedTuple):
    merchant_id: str | None
    number: int


class _MerchantPartner(NamedTuple):
    id: str
    partner_id: str


_ENQUEUE = Command(insert(account_to_open_table).on_conflict_do_nothing(index_elements=_KEY))
_QUEUE = Statement(
    select(_QUEUED.asset, _QUEUED.account, _QUEUED.merchant_id)
    .where(_QUEUED.chain_id == param("chain_id"))
    .order_by(_QUEUED.at_us, _QUEUED.asset, _QUEUED.account),
    _QueuedAccount,
)
_DROP = Command(
    delete(account_to_open_table).where(
        _QUEUED.asset == param("asset_"), _QUEUED.account == param("account_")
    )
)
_CLAIM = Statement(
    insert(opened_account_table)
    .on_conflict_do_nothing(index_elements=_KEY)
    .returning(opened_account_table.c.asset),
    str,
)
_lock = insert(installation_table)
# a row per chain that every opening changes first, as caps count the other openings
_LOCK = Command(
    _lock.on_conflict_do_update(index_elements=["name"], set_={"value": _lock.excluded.value})
)
_FILTER_OPENED = Statement(
    select(_OPENED.asset, _OPENED.account).where(
        is_in(_OPENED.asset, "assets"), is_in(_OPENED.account, "accounts")
    ),
    AssetAccount,
)
_OF_DAY = Statement(
    select(_OPENED.merchant_id, func.count().label("number"))
    .where(_OPENED.chain_id == param("chain_id"), _OPENED.day == param("day"))
    .group_by(_OPENED.merchant_id),
    _MerchantCount,
)
_PARTNERS = Statement(
    select(merchant_table.c.id, merchant_table.c.partner_id).where(
        is_in(merchant_table.c.id, "ids")
    ),
    _MerchantPartner,
)
_FREE = Command(delete(opened_account_table).where(is_in(_OPENED.opened_by, "ids")))


class _DailyQuota:
    """The rest of a chain's daily caps; our own places count, and always have room.

    `partners` holds the partner of each merchant that opened an account, or wants to.
    """

    def __init__(
        self, caps: DailyOpeningCaps, opened: Mapping[str | None, int], partners: Mapping[str, str]
    ) -> None:
        self._caps = caps
        self._opened = dict(opened)
        self._partners = partners

    def try_take(self, merchant_id: str | None) -> bool:
        """Return True if one more can be opened; it then counts."""
        count = self._opened.get(merchant_id, 0)
        if merchant_id is not None and (
            sum(self._opened.values()) >= self._caps.chain
            or self._count_of_partner(merchant_id) >= self._caps.partner
            or count >= self._caps.merchant
        ):
            return False
        self._opened[merchant_id] = count + 1
        return True

    def _count_of_partner(self, merchant_id: str) -> int:
        partner_id = self._partners.get(merchant_id, merchant_id)
        return sum(
            count
            for other, count in self._opened.items()
            if other is not None and self._partners.get(other, other) == partner_id
        )


@operation
def enqueue(opening: TokenAccountOpening, now_us: int) -> Op[None]:
    """Queue a place, unless it was opened before, or the queue is full."""
    place, merchant_id = opening.destination, opening.merchant_id
    if (yield from _filter_opened([place])):
        return
    queued = [item.merchant_id for item in (yield from _QUEUE.all(chain_id=place.chain_id))]
    mine = queued.count(merchant_id) if merchant_id is not None else 0
    if len(queued) < QUEUE_MAX and mine < MERCHANT_QUEUE_MAX:
        yield _ENQUEUE(
            asset=place.asset,
            account=place.account,
            chain_id=place.chain_id,
            merchant_id=merchant_id,
            at_us=now_us,
        )


@operation
def list_pending(
    chain_id: str, caps: DailyOpeningCaps, most: int, now_us: int
) -> Op[list[TokenAccountOpening]]:
    """Return queued places of a chain that can be opened today, the oldest first."""
    queued = yield from _QUEUE.all(chain_id=chain_id)
    merchant_ids = [item.merchant_id for item in queued]
    room = yield from _load_quota(chain_id, caps, now_us, merchant_ids)
    openings: list[TokenAccountOpening] = []
    for asset, account, merchant_id in queued:
        if len(openings) < most and room.try_take(merchant_id):
            openings.append(TokenAccountOpening(AssetAccount(asset, account), merchant_id))
    return openings


@operation
def filter_openable(
    openings: Sequence[TokenAccountOpening], caps: DailyOpeningCaps, now_us: int
) -> Op[frozenset[AssetAccount]]:
    """Return the places of a chain that were never opened and can be today, each judged alone."""
    if not openings:
        return frozenset()
    asset_accounts = yield from _filter_opened([opening.destination for opening in openings])
    today = yield from _count_opened_today(openings[0].destination.chain_id, now_us)
    partners = yield from _find_partners([*today, *(opening.merchant_id for opening in openings)])
    return frozenset(
        opening.destination
        for opening in openings
        if opening.destination not in asset_accounts
        and _DailyQuota(caps, today, partners).try_take(opening.merchant_id)
    )


@operation
def claim(
    openings: Sequence[TokenAccountOpening], caps: DailyOpeningCaps, opened_by: str, now_us: int
) -> Op[None]:
    """Claim places of one chain for an opening transaction; part of an operation.

    The places leave the queue. Raise AccountNotOpenable if a merchant's place was opened before, or
    today's caps are reached. Our own treasury's places can come with several payments at once, as
    no one takes their rent.
    """
    if not openings:
        return
    chain_id = openings[0].destination.chain_id
    yield _LOCK(name=f"openings:{chain_id}", value="")
    room = yield from _load_quota(
        chain_id, caps, now_us, [each_opening.merchant_id for each_opening in openings]
    )
    yield from dequeue([each_opening.destination for each_opening in openings])
    for opening in openings:
        taken = yield from _CLAIM.any(
            asset=opening.destination.asset,
            account=opening.destination.account,
            chain_id=opening.destination.chain_id,
            merchant_id=opening.merchant_id,
            day=now_us // _DAY_US,
            opened_by=opened_by,
            at_us=now_us,
        )
        if opening.merchant_id is None:
            continue
        if not taken:
            raise AccountNotOpenable(
                f"Florin opened an account for {opening.destination.account} before"
            )
        if not room.try_take(opening.merchant_id):
            raise AccountNotOpenable(
                f"today's limit of opened accounts is reached: {opening.destination.account} waits"
            )


@operation
def release(opened_by: Collection[str]) -> Op[None]:
    """Release places that provably were not opened; part of an operation."""
    if opened_by:
        yield _FREE(ids=opened_by)


@operation
def dequeue(places: Sequence[AssetAccount]) -> Op[None]:
    """Remove places from the queue; part of an operation."""
    yield _DROP.bind_many(
        [
            {"asset_": asset_account.asset, "account_": asset_account.account}
            for asset_account in places
        ]
    )


def _filter_opened(places: Sequence[AssetAccount]) -> Op[set[AssetAccount]]:
    """Return which of the places were opened before."""
    opened = yield from _FILTER_OPENED.all(
        assets={asset_account.asset for asset_account in places},
        accounts={asset_account.account for asset_account in places},
    )
    return set(opened).intersection(places)


def _count_opened_today(chain_id: str, now_us: int) -> Op[dict[str | None, int]]:
    """Return how many places were opened today, by merchant."""
    return dict((yield from _OF_DAY.all(chain_id=chain_id, day=now_us // _DAY_US)))


def _load_quota(
    chain_id: str, caps: DailyOpeningCaps, now_us: int, merchants: Iterable[str | None]
) -> Op[_DailyQuota]:
    today = yield from _count_opened_today(chain_id, now_us)
    return _DailyQuota(caps, today, (yield from _find_partners([*today, *merchants])))


def _find_partners(merchants: Iterable[str | None]) -> Op[dict[str, str]]:
    """Return the partner of each merchant."""
    ids = {each_merchant for each_merchant in merchants if each_merchant is not None}
    return dict((yield from _PARTNERS.all(ids=ids)))
