"""Data about a buyer as it is kept: by whom it was told, and sealed for its place.

Whoever knows a payment and an account can tell anything about it, so what is told belongs to the
credential that told it. It counts for the payment if that credential confirms it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from florin_server.domain.capture import buyer_data
from florin_server.domain.errors import Code, FlorinError, Issue
from florin_server.domain.payments.payment import Payment
from florin_server.domain.sealed import Lost, Seal
from florin_server.flows.app import App, Caller
from florin_server.store.capture.collected_data import Collected, Way, source_of

_DAY_US = 86_400_000_000


@dataclass(frozen=True, slots=True)
class Teller:
    """A credential that tells about buyers of one payment.

    `app` is the id of the wallet's registration, or of its key. `ids` stand for the credential, in
    which a client may have written what it likes: one for each key of the seal, the newest first.
    """

    app: str
    ids: Sequence[str]

    @property
    def sources(self) -> list[str]:
        """The sources of what it tells; a form, which the buyer filled in, wins."""
        return [source_of(way, one) for way in (Way.FORM, Way.INLINE) for one in self.ids]


def teller(app: App, caller: Caller, payment: Payment) -> Teller:
    """Who tells what a caller tells about a payment; nobody else can link it to other payments."""
    found = app.seal.derive("teller", payment.id, caller.credential)
    wallet = caller.credential if caller.app is None else caller.app.app_id
    return Teller(wallet, [one.hex()[:32] for one in found])


def checked(value: object, member: str) -> bytes:
    """The data as it is kept; equal data is equal bytes. FlorinError(params_validation)."""
    data, issues = buyer_data.read(value)
    if issues:
        raise invalid(issues, member)
    return orjson.dumps(data, option=orjson.OPT_SORT_KEYS)


def invalid(issues: Sequence[Issue], member: str) -> FlorinError:
    """The refusal of data that came as a member of a request."""
    placed = tuple(Issue(_below(member, issue.field), issue.message) for issue in issues)
    first = placed[0]
    return FlorinError(
        Code.PARAMS_VALIDATION,
        f"Validation error: {first.field}: {first.message}",
        issues=placed,
    )


def sealed(  # noqa: PLR0917  (one of each, none alike)
    app: App, payment: Payment, account: str, source: str, wallet: str, data: bytes
) -> Collected:
    """What is to be kept of data about an account."""
    now_us = app.clock.now_us()
    return Collected(
        payment.id,
        account,
        source,
        wallet,
        app.seal.close(data, _place(payment.id, account, source), app.randbytes),
        now_us,
        now_us + app.settings.capture.retention_days * _DAY_US,
    )


def opened(seal: Seal, one: Collected) -> str | None:
    """The JSON of what was told; None if the key to read it with is lost."""
    try:
        return seal.open(one.sealed, _place(one.payment_id, one.account, one.source)).decode()
    except Lost:
        return None


def _below(member: str, field: str) -> str:
    return member + field if not field or field.startswith("[") else f"{member}.{field}"


def _place(payment_id: str, account: str, source: str) -> str:
    """What an envelope is bound to: it cannot be opened as anybody else's.

    Envelopes from before sources were kept name none.
    """
    return "|".join((payment_id, account, source) if source else (payment_id, account))
