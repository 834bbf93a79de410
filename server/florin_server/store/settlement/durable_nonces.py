"""Durable nonces: which are free, and whose transaction has which.

A nonce that is held is free again only when the chain shows another value of it at final depth:
whatever was signed with the old one can never land then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import select, update

from florin_server.domain.payments.payment import FreeNonce, ResolvedBuild, Status
from florin_server.store.engine.query import (
    Op,
    Statement,
    StoreError,
    any_of,
    insert,
    operation,
    param,
)
from florin_server.store.payments.payments import put_issued
from florin_server.store.tables.tables import nonce_account, payment


class Raced(StoreError):  # noqa: N818  (a state of the world, not a mistake)
    """Somebody else took the nonce, or resolved the option; nothing was written."""


@dataclass(frozen=True, slots=True)
class TakenNonce:
    """A nonce account. `status` is that of the payment that has it, None if nobody has."""

    address: str
    value: str
    slot: int
    held_until_us: int
    status: Status | None


_OF_CHAIN = nonce_account.c.chain_id == param("chain_id")
_ONE = (_OF_CHAIN, nonce_account.c.address == param("account"))
_ALL = Statement(
    select(
        nonce_account.c.address,
        nonce_account.c.value,
        nonce_account.c.slot,
        nonce_account.c.held_until_us,
        payment.c.status,
    )
    .join_from(nonce_account, payment, payment.c.id == nonce_account.c.payment_id, isouter=True)
    .where(_OF_CHAIN)
    .order_by(nonce_account.c.address)
)
_FREE = Statement(
    select(nonce_account.c.address, nonce_account.c.value, nonce_account.c.slot)
    .where(
        _OF_CHAIN,
        any_of(nonce_account.c.address, "accounts"),
        nonce_account.c.payment_id.is_(None),
        nonce_account.c.value != "",
    )
    .order_by(nonce_account.c.held_until_us, nonce_account.c.address)
    .limit(1)
)
_ADD = Statement(
    insert(nonce_account).on_conflict_do_nothing(index_elements=["chain_id", "address"])
)
_TAKE = Statement(
    update(nonce_account)
    .where(*_ONE, nonce_account.c.payment_id.is_(None), nonce_account.c.value == param("before"))
    .values(payment_id=param("whose"), option_id=param("which"), held_until_us=param("until_us"))
    .returning(nonce_account.c.address)
)
_SEEN = Statement(
    update(nonce_account)
    .where(*_ONE, nonce_account.c.value == param("before"), nonce_account.c.slot <= param("at"))
    .values(value=param("now"), slot=param("at"), payment_id=None, option_id=None)
)


@operation
def every(chain_id: str) -> Op[list[TakenNonce]]:
    """Every nonce account of a chain that was written down."""
    return [
        TakenNonce(address, value, slot, until_us, None if status is None else Status(status))
        for address, value, slot, until_us, status in (yield _ALL(chain_id=chain_id))
    ]


@operation
def expect(chain_id: str, addresses: Sequence[str]) -> Op[None]:
    """Writes accounts down that are to be made; nothing happens to those that are known."""
    yield _ADD.many(
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
def free(chain_id: str, addresses: Sequence[str]) -> Op[FreeNonce | None]:
    """One of the accounts that nobody has, the one that was free for longest."""
    rows = yield _FREE(chain_id=chain_id, accounts=addresses)
    return FreeNonce(*rows[0]) if rows else None


@operation
def issue(
    new: ResolvedBuild, chain_id: str, spare: FreeNonce, until_us: int
) -> Op[list[ResolvedBuild]]:
    """Stores what an option was resolved to together with the nonce that it takes; or Raced."""
    taken = yield _TAKE(
        chain_id=chain_id,
        account=spare.address,
        before=spare.value,
        whose=new.payment_id,
        which=new.option_id,
        until_us=until_us,
    )
    stored = yield from put_issued(new)
    if not taken or stored[0].terms != new.terms:
        raise Raced(f"the nonce {spare.address} or the option's issue was taken")
    return stored


@operation
def seen(chain_id: str, address: str, before: str, now: str, slot: int) -> Op[None]:
    """A final block has another value than before: whoever had it has it no more."""
    yield _SEEN(chain_id=chain_id, account=address, before=before, now=now, at=slot)
