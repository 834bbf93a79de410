"""Forms for data about buyers: their addresses, what they show, what is handed in.

Whoever asks for options is told a form of its own, so that nobody fills in somebody else's. Its
token says for itself what it is good for, with a code that only the installation can make: nothing
is written down before a form is handed in.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import quote

import orjson

from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.payments.payment import Merchant, Payment, Status
from florin_server.flows.app import App
from florin_server.flows.capture.collected import Teller, checked, opened, sealed
from florin_server.flows.payments.load import current, merchant_of
from florin_server.store.capture import collected_data
from florin_server.store.capture.collected_data import Way, source_of

_CODE_BYTES = 32
# enough that no two accounts of a payment have the same, and a hundred fit into an address
_TAG_CHARS = 16


@dataclass(frozen=True, slots=True)
class Form:
    """A form that somebody has open; `done` tells that it was handed in."""

    payment: Payment
    merchant: Merchant
    done: bool


class _Ticket(NamedTuple):
    """What a token is good for: `teller` tells about the accounts with these tags."""

    payment_id: str
    app: str
    teller: str
    tags: str

    @property
    def source(self) -> str:
        return source_of(Way.FORM, self.teller)


def url(app: App, payment: Payment, told_to: Teller, accounts: Mapping[str, str]) -> str:
    """The address of a form for some accounts, given as {canonical: as written}.

    It is the same whenever the same credential asks.
    """
    tags = "".join(sorted(_tag(account) for account in accounts))
    ticket = _Ticket(payment.id, told_to.app, told_to.ids[0], tags)
    text = orjson.dumps(list(ticket)).decode()
    code, *_ = app.seal.derive("form", text)
    token = base64.urlsafe_b64encode(code + text.encode()).decode().rstrip("=")
    listed = quote(",".join(accounts.values()), safe="")
    return f"{app.links.base}/collect/?pid={payment.id}&accounts={listed}&t={token}"


async def form(app: App, payment_id: str | None, token: str) -> Form:
    """The form that a token opens; FlorinError(unauthorized), or payment_expired if it is dead.

    `payment_id` is what a link says beside it.
    """
    ticket = _read(app, token)
    if payment_id not in {None, ticket.payment_id}:
        raise _unauthorized()
    payment, accounts = await _found(app, ticket)
    told = await app.store.read(collected_data.told_by(payment.id, accounts, ticket.source))
    done = accounts == {one.account for one in told}
    if not done:
        _check_open(payment)
    return Form(payment, await merchant_of(app, payment), done)


async def hand_in(app: App, token: str, value: object, *, peer: str = "") -> None:
    """Stores what a form holds for the accounts of its token; the same once more changes nothing.

    `peer` is who hands it in, in gRPC's form.
    FlorinError: unauthorized, payment_expired, rate_limited, params_validation.
    """
    ticket = _read(app, token)
    # each form has a budget: nobody uses up the buyer's
    app.limits.form(f"{ticket.payment_id}/{ticket.teller}", peer)
    payment, accounts = await _found(app, ticket)
    told = await app.store.read(collected_data.told_by(payment.id, accounts, ticket.source))
    done = accounts == {one.account for one in told}
    if not done:
        _check_open(payment)
    data = checked(value, "data")
    if not done:
        new = [
            sealed(app, payment, account, ticket.source, ticket.app, data)
            for account in sorted(accounts)
        ]
        told = await app.store.write(collected_data.hand_in(new))
    # of several at once one came first; and one for more accounts keeps what is known of some
    if not any(_equal(opened(app.seal, one), data) for one in told):
        raise _unauthorized()


async def _found(app: App, ticket: _Ticket) -> tuple[Payment, set[str]]:
    """The payment, and those of the ticket's accounts that it is offered to.

    Whoever is erased must be asked for options again before a form is of use.
    """
    stored = await app.store.reader.payment(ticket.payment_id)
    if stored is None:
        raise _unauthorized()
    size = _TAG_CHARS
    tags = {ticket.tags[at : at + size] for at in range(0, len(ticket.tags), size)}
    offered = await app.store.read(collected_data.offered(stored.id))
    accounts = {account for account in offered if _tag(account) in tags}
    if not accounts:
        raise _unauthorized()
    return await current(app, stored), accounts


def _read(app: App, token: str) -> _Ticket:
    """What a token of ours says; FlorinError(unauthorized) for any other."""
    try:
        told = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        code, text = told[:_CODE_BYTES], told[_CODE_BYTES:].decode()
        codes = app.seal.derive("form", text)
    except ValueError:
        raise _unauthorized() from None
    if not any(hmac.compare_digest(code, one) for one in codes):
        raise _unauthorized()
    return _Ticket(*orjson.loads(text))


def _tag(account: str) -> str:
    """What stands for an account in a token."""
    return hashlib.sha256(account.encode()).hexdigest()[:_TAG_CHARS]


def _equal(told: str | None, data: bytes) -> bool:
    return told is not None and hmac.compare_digest(told.encode(), data)


def _check_open(payment: Payment) -> None:
    if payment.status is Status.EXPIRED:
        raise FlorinError(Code.PAYMENT_EXPIRED)
    if payment.status is not Status.REQUIRES_ACTION:
        raise _unauthorized()


def _unauthorized() -> FlorinError:
    return FlorinError(Code.UNAUTHORIZED, "This form cannot be used")
