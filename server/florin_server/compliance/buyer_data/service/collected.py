"""Stored data about a buyer: its supplier, and its encryption for its place.

Any caller that knows a payment and an account can send data about it, so data belongs to the
credential that sent it. It is valid for the payment if that credential confirms it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import orjson

from florin_server.compliance.buyer_data.store import BuyerDataRecord, DataSource, format_source
from florin_server.db.context import StorageContext
from florin_server.domain.accounts.caller import Caller
from florin_server.domain.capture import buyer_data
from florin_server.domain.cipher import Cipher, DecryptionError
from florin_server.domain.errors import ApiError, ErrorCode, FieldIssue
from florin_server.domain.payments.payment import Payment
from florin_server.settings.context import SettingsContext


class _Context(SettingsContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


_DAY_US = 86_400_000_000


@dataclass(frozen=True, slots=True)
class DataSupplier:
    """A credential that supplies data about buyers of one payment.

    `app_id` is the id of the wallet's registration, or of its key. `source_ids` identify the
    credential, which can contain a client's own text: one for each encryption key, the newest
    first.
    """

    app_id: str
    source_ids: Sequence[str]

    @property
    def sources(self) -> list[str]:
        """Return the sources of its data; a form, which the buyer filled in, wins."""
        return [
            format_source(way, source_id)
            for way in (DataSource.FORM, DataSource.INLINE)
            for source_id in self.source_ids
        ]


def get_supplier(app: StorageContext, caller: Caller, payment: Payment) -> DataSupplier:
    """Return the supplier of a caller's data about a payment.

    It is not linkable to other payments.
    """
    digests = app.cipher.derive("teller", payment.id, caller.credential)
    wallet = caller.credential if caller.app is None else caller.app.app_id
    return DataSupplier(wallet, [digest.hex()[:32] for digest in digests])


def encode_data(value: object, member: str) -> bytes:
    """Return the data in its stored form; equal data is equal bytes.

    ApiError(params_validation) if the data is invalid.
    """
    data, issues = buyer_data.parse_buyer_data(value)
    if issues:
        raise invalid_data_error(issues, member)
    return orjson.dumps(data, option=orjson.OPT_SORT_KEYS)


def invalid_data_error(issues: Sequence[FieldIssue], member: str) -> ApiError:
    """Return the error for data in a member of a request."""
    placed = tuple(FieldIssue(_join_field(member, issue.field), issue.message) for issue in issues)
    first = placed[0]
    return ApiError(
        ErrorCode.PARAMS_VALIDATION,
        f"Validation error: {first.field}: {first.message}",
        issues=placed,
    )


def encrypt_data(  # noqa: PLR0917  (one of each, none alike)
    app: _Context, payment: Payment, account: str, source: str, wallet: str, data: bytes
) -> BuyerDataRecord:
    """Return the stored form of data about an account."""
    now_us = app.clock.now_us()
    return BuyerDataRecord(
        payment.id,
        account,
        source,
        wallet,
        app.cipher.encrypt(data, _get_cipher_context(payment.id, account, source), app.randbytes),
        now_us,
        now_us + app.settings.capture.retention_days * _DAY_US,
    )


def decrypt_data(cipher: Cipher, collected: BuyerDataRecord) -> str | None:
    """Return the JSON of the data; None if the key to decrypt it is lost."""
    try:
        return cipher.decrypt(
            collected.sealed,
            _get_cipher_context(collected.payment_id, collected.account, collected.source),
        ).decode()
    except DecryptionError:
        return None


def _join_field(member: str, field: str) -> str:
    return member + field if not field or field.startswith("[") else f"{member}.{field}"


def _get_cipher_context(payment_id: str, account: str, source: str) -> str:
    """Return the context that binds an envelope: it cannot be opened as another account's.

    Envelopes from before sources were stored have none.
    """
    return "|".join((payment_id, account, source) if source else (payment_id, account))
