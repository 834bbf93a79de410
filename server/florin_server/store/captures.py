"""Data about buyers: who may hand it in, what was handed in, and when it is deleted.

Nothing here can read the data. What was told first about an account for a payment stays.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import delete, or_, select, update

from florin_server.domain.payment import Payment, Status
from florin_server.domain.sealed import Sealed
from florin_server.store.query import Op, Row, Statement, any_of, columns, insert, param, record
from florin_server.store.tables import capture_token, collected_data, payment


@dataclass(frozen=True, slots=True)
class Token:
    """The right to hand in data about accounts (canonical CAIP-10) for a payment, once.

    `hash` is that of the token. It dies with its payment at `expires_at` (Unix seconds). `used` is
    what was handed in, as a hash that needs the token itself.
    """

    hash: str
    payment_id: str
    accounts: Sequence[str]
    expires_at: int
    used: bytes | None = None


@dataclass(frozen=True, slots=True)
class Collected:
    """What was told about an account for a payment; times are microseconds since the epoch."""

    payment_id: str
    account: str
    sealed: Sealed
    created_at_us: int
    kept_until_us: int


_TOKEN = Statement(
    select(*columns(capture_token, Token)).where(any_of(capture_token.c.hash, "hashes"))
)
_PUT_TOKEN = Statement(insert(capture_token).on_conflict_do_nothing())
_USE_TOKEN = Statement(
    update(capture_token)
    .where(capture_token.c.hash == param("hash_"), capture_token.c.used.is_(None))
    .values(used=param("given"))
    .returning(capture_token.c.hash)
)
_FORGET_TOKENS = Statement(
    delete(capture_token)
    .where(
        capture_token.c.hash.in_(
            select(capture_token.c.hash)
            .where(capture_token.c.expires_at <= param("until"))
            .order_by(capture_token.c.expires_at)
            .limit(param("limit"))
        )
    )
    .returning(capture_token.c.hash)
)
_PUT = Statement(insert(collected_data).on_conflict_do_nothing())
_GIVEN = Statement(
    select(collected_data.c.account).where(
        collected_data.c.payment_id == param("payment_id"),
        any_of(collected_data.c.account, "accounts"),
        collected_data.c.kept_until_us > param("now_us"),
    )
)
# whoever knows a payment may tell anything about any account: it counts elsewhere only where the
# account itself went along with it
_REUSABLE = Statement(
    select(collected_data.c.account)
    .join(payment, payment.c.id == collected_data.c.payment_id)
    .where(
        any_of(collected_data.c.account, "accounts"),
        collected_data.c.kept_until_us > param("now_us"),
        payment.c.live == param("live"),
        payment.c.payer == collected_data.c.account,
        or_(collected_data.c.proven.is_(True), payment.c.status == Status.SUCCEEDED),
    )
)
_PROVE = Statement(
    update(collected_data)
    .where(
        collected_data.c.payment_id == param("payment_id"),
        collected_data.c.account == param("account_"),
    )
    .values(proven=True)
)
_OF = Statement(
    select(
        collected_data.c.payment_id,
        collected_data.c.account,
        collected_data.c.key_id,
        collected_data.c.nonce,
        collected_data.c.ciphertext,
        collected_data.c.created_at_us,
        collected_data.c.kept_until_us,
    )
    .where(collected_data.c.account == param("account_"))
    .order_by(collected_data.c.created_at_us.desc(), collected_data.c.payment_id.desc())
)
_ERASE = Statement(
    delete(collected_data)
    .where(
        any_of(collected_data.c.payment_id, "ids"), collected_data.c.account == param("account_")
    )
    .returning(collected_data.c.payment_id)
)
_ERASE_TOKENS = Statement(delete(capture_token).where(any_of(capture_token.c.payment_id, "ids")))
_LAPSED = Statement(
    select(collected_data.c.payment_id, collected_data.c.account)
    .where(collected_data.c.kept_until_us <= param("now_us"))
    .order_by(collected_data.c.kept_until_us)
    .limit(param("limit"))
)
_FORGET = Statement(
    delete(collected_data).where(
        collected_data.c.payment_id == param("payment_id"),
        collected_data.c.account == param("account_"),
    )
)


def tokens(hashes: Collection[str]) -> Op[list[Token]]:
    """The tokens that there are of these."""
    rows = yield _TOKEN(hashes=hashes)
    return [Token(*row) for row in rows]


def put_tokens(new: Sequence[Token]) -> Op[None]:
    """Stores tokens; one that is there already stays as it is."""
    yield _PUT_TOKEN.many([record(one) for one in new])


def hand_in(token: Token, given: bytes, data: Sequence[Collected]) -> Op[Token]:
    """Uses a token and stores what was handed in with it; gives the token as it was before.

    Nothing is stored if the token was used before. `given` tells what was handed in, for whoever
    has the token. LookupError if the token was deleted in the meantime.
    """
    if (yield _USE_TOKEN(hash_=token.hash, given=given)):
        yield from put(data)
        return token
    rows = yield _TOKEN(hashes=[token.hash])
    if not rows:
        raise LookupError("the token is gone")
    return Token(*rows[0])


def put(data: Sequence[Collected]) -> Op[None]:
    """Stores data; what was told before about the same account and payment stays."""
    yield _PUT.many(
        [
            {
                "payment_id": one.payment_id,
                "account": one.account,
                **record(one.sealed),
                "created_at_us": one.created_at_us,
                "kept_until_us": one.kept_until_us,
                "proven": False,
            }
            for one in data
        ]
    )


def given(payment_id: str, accounts: Collection[str], now_us: int) -> Op[set[str]]:
    """Of which accounts there is data for this very payment."""
    rows = yield _GIVEN(payment_id=payment_id, accounts=accounts, now_us=now_us)
    return {account for (account,) in rows}


def on_file(payment_id: str, accounts: Collection[str], now_us: int, *, live: bool) -> Op[set[str]]:
    """Of which accounts there is data that counts for a payment."""
    found = yield from given(payment_id, accounts, now_us)
    if len(found) < len(accounts):
        rows = yield _REUSABLE(accounts=accounts, now_us=now_us, live=live)
        found |= {account for (account,) in rows}
    return found


def proven(accept: Op[Payment | None], account: str) -> Op[Payment | None]:
    """Accepts a confirm that the account signed: what was told about it counts from now on."""
    accepted = yield from accept
    if accepted is not None:
        yield _PROVE(payment_id=accepted.id, account_=account)
    return accepted


def of_account(account: str) -> Op[list[Collected]]:
    """All that was told about an account, the newest first."""
    rows = yield _OF(account_=account)
    return [_collected(row) for row in rows]


def erase(account: str, payment_ids: Collection[str]) -> Op[int]:
    """Part of an operation: deletes what was told for some payments, and what allowed it."""
    yield _ERASE_TOKENS(ids=payment_ids)
    return len((yield _ERASE(account_=account, ids=payment_ids)))


def forget(now_us: int, tokens_until: int, limit: int) -> Op[int]:
    """Deletes data whose time is over, and tokens that died until a time; tells how many."""
    lapsed = yield _LAPSED(now_us=now_us, limit=limit)
    if lapsed:
        yield _FORGET.many([{"payment_id": one, "account_": account} for one, account in lapsed])
    dead = yield _FORGET_TOKENS(until=tokens_until, limit=limit)
    return max(len(lapsed), len(dead))


def _collected(row: Row) -> Collected:
    payment_id, account, key_id, nonce, ciphertext, created_at_us, kept_until_us = row
    return Collected(
        payment_id, account, Sealed(key_id, nonce, ciphertext), created_at_us, kept_until_us
    )
