"""Durable nonces: which are free, and which transaction has each of the others.

An assigned nonce is free again only when the chain shows another value at final depth: then no
transaction signed with the old value can ever land.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import and_, select, update

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
from florin_server.db.tables.tables import nonce_account_table, payment_option_table, payment_table
from florin_server.domain.payments.payment import FreeNonce, PaymentStatus, ResolvedBuild
from florin_server.money.payments.store.payments import put_resolved_build


class NonceConflict(StoreError):  # noqa: N818  (a state of the world, not a mistake)
    """Another process took the nonce, or resolved the option; nothing was written."""

    is_transient = True


@dataclass(frozen=True, slots=True)
class NonceHolding:
    """A nonce account; `status` is that of the payment that has it, None if it is free."""

    address: str
    value: str
    slot: int
    held_until_us: int
    status: PaymentStatus | None


@dataclass(frozen=True, slots=True)
class NonceRequest:
    """An option's request for a nonce: `payer` pays it (CAIP-10), `partner_id` owns the payment."""

    payment_id: str
    option_id: str
    payer: str
    partner_id: str


_OF_CHAIN = nonce_account_table.c.chain_id == param("chain_id")
_MATCHES_ACCOUNT = (_OF_CHAIN, nonce_account_table.c.address == param("account"))
_ALL = Statement(
    select(
        nonce_account_table.c.address,
        nonce_account_table.c.value,
        nonce_account_table.c.slot,
        nonce_account_table.c.held_until_us,
        payment_table.c.status,
    )
    .join_from(
        nonce_account_table,
        payment_table,
        payment_table.c.id == nonce_account_table.c.payment_id,
        isouter=True,
    )
    .where(_OF_CHAIN)
    .order_by(nonce_account_table.c.address),
    NonceHolding,
)
_FREE = Statement(
    select(nonce_account_table.c.address, nonce_account_table.c.value, nonce_account_table.c.slot)
    .where(
        _OF_CHAIN,
        is_in(nonce_account_table.c.address, "accounts"),
        nonce_account_table.c.payment_id.is_(None),
        nonce_account_table.c.value != "",
    )
    .order_by(nonce_account_table.c.held_until_us, nonce_account_table.c.address)
    .limit(1),
    FreeNonce,
)
_HELD = Statement(
    select(
        nonce_account_table.c.payment_id,
        nonce_account_table.c.option_id,
        payment_option_table.c.payer,
        payment_table.c.partner_id,
    )
    .join_from(
        nonce_account_table, payment_table, payment_table.c.id == nonce_account_table.c.payment_id
    )
    .join(
        payment_option_table,
        and_(
            payment_option_table.c.payment_id == nonce_account_table.c.payment_id,
            payment_option_table.c.id == nonce_account_table.c.option_id,
        ),
    )
    .where(_OF_CHAIN),
    NonceRequest,
)
_ADD = Command(
    insert(nonce_account_table).on_conflict_do_nothing(index_elements=["chain_id", "address"])
)
_TAKE = Statement(
    update(nonce_account_table)
    .where(
        *_MATCHES_ACCOUNT,
        nonce_account_table.c.payment_id.is_(None),
        nonce_account_table.c.value == param("before"),
    )
    .values(payment_id=param("whose"), option_id=param("which"), held_until_us=param("until_us"))
    .returning(nonce_account_table.c.address),
    str,
)
_OF_OPTION = (
    _OF_CHAIN,
    nonce_account_table.c.payment_id == param("whose"),
    nonce_account_table.c.option_id == param("which"),
)
_HAS_NONCE = Statement(
    select(nonce_account_table.c.address).where(
        *_OF_OPTION, nonce_account_table.c.held_until_us > 0
    ),
    str,
)
_RELEASE = Command(update(nonce_account_table).where(*_OF_OPTION).values(held_until_us=0))
_RECORD_ADVANCE = Command(
    update(nonce_account_table)
    .where(
        *_MATCHES_ACCOUNT,
        nonce_account_table.c.value == param("before"),
        nonce_account_table.c.slot <= param("at"),
    )
    .values(value=param("now"), slot=param("at"), payment_id=None, option_id=None)
)


@operation
def list_accounts(chain_id: str) -> Op[list[NonceHolding]]:
    """Return every recorded nonce account of a chain."""
    return (yield from _ALL.all(chain_id=chain_id))


@operation
def register(chain_id: str, addresses: Sequence[str]) -> Op[None]:
    """Record accounts to create; accounts that are already recorded stay unchanged."""
    yield _ADD.bind_many(
        [
            {
                "chain_id": chain_id,
                "address": address,
                "value": "",
                "slot": 0,
                "payment_id": None,
                "option_id": None,
                "held_until_us": 0,
            }
            for address in sorted(addresses)
        ]
    )


@operation
def find_free(
    chain_id: str, addresses: Sequence[str], request: NonceRequest | None = None
) -> Op[FreeNonce | None]:
    """Return the account that was free for longest; None if none is free for the request.

    A payment and a payer have at most one at a time, and a partner's payments half of all, so that
    no partner takes the others' share.
    """
    if request is not None and not (yield from _has_share(chain_id, len(addresses), request)):
        return None
    return (yield from _FREE.first(chain_id=chain_id, accounts=addresses))


@operation
def assign(
    resolved_build: ResolvedBuild,
    chain_id: str,
    free_nonce: FreeNonce,
    until_us: int,
    request: tuple[int, NonceRequest] | None = None,
) -> Op[list[ResolvedBuild]]:
    """Store a resolved build together with the nonce that it takes, or raise NonceConflict.

    `request` is the size of the pool and the requester, whose share must not be used up meanwhile.
    """
    if request is not None and not (yield from _has_share(chain_id, *request)):
        raise NonceConflict(
            f"the nonces available to payment {resolved_build.payment_id} were taken"
        )
    taken = yield from _TAKE.any(
        chain_id=chain_id,
        account=free_nonce.address,
        before=free_nonce.value,
        whose=resolved_build.payment_id,
        which=resolved_build.option_id,
        until_us=until_us,
    )
    resolved_builds = yield from put_resolved_build(resolved_build)
    if not taken or resolved_builds[0].terms != resolved_build.terms:
        raise NonceConflict(f"the nonce {free_nonce.address} or the option's issue was taken")
    return resolved_builds


@operation
def has_nonce(chain_id: str, payment_id: str, option_id: str) -> Op[bool]:
    """Return whether an option has a nonce that was not released."""
    return (yield from _HAS_NONCE.any(chain_id=chain_id, whose=payment_id, which=option_id))


@operation
def release(chain_id: str, payment_id: str, option_id: str) -> Op[None]:
    """Release an option's nonce that its wallet cannot use, so that it is advanced soon."""
    yield _RELEASE(chain_id=chain_id, whose=payment_id, which=option_id)


@operation
def record_advance(chain_id: str, address: str, before: str, now: str, slot: int) -> Op[None]:
    """Free a nonce account whose value changed in a final block."""
    yield _RECORD_ADVANCE(chain_id=chain_id, account=address, before=before, now=now, at=slot)


def _has_share(chain_id: str, pool: int, request: NonceRequest) -> Op[bool]:
    """Return whether a request can have one of `pool` nonces beside the assigned nonces."""
    of_partner = 0
    for holder in (yield from _HELD.all(chain_id=chain_id)):
        if (holder.payment_id, holder.option_id) == (request.payment_id, request.option_id):
            continue
        if holder.payment_id == request.payment_id or holder.payer == request.payer:
            return False
        of_partner += holder.partner_id == request.partner_id
    return of_partner < max(1, pool // 2)
