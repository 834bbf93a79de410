"""Links to forms for data about buyers.

Each caller of options gets its own form, so that no caller can fill in the form of another. The
token itself says what it is valid for, with a code that only the installation can make: nothing is
stored before a form is submitted.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from typing import NamedTuple, Protocol
from urllib.parse import quote

import orjson

from florin_server.compliance.buyer_data.service.collected import DataSupplier
from florin_server.compliance.buyer_data.store import DataSource, format_source
from florin_server.db.context import StorageContext
from florin_server.domain.payments.payment import Payment
from florin_server.settings.context import SettingsContext

_CODE_BYTES = 32
# enough that no two accounts of a payment have the same, and a hundred fit into a URL
_TAG_CHARS = 16


class _Context(SettingsContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


class FormTicket(NamedTuple):
    """The content of a token: `supplier_id` supplies data about the accounts with these tags."""

    payment_id: str
    app_id: str
    supplier_id: str
    tags: str

    @property
    def source(self) -> str:
        """Return the source under which the data is stored."""
        return format_source(DataSource.FORM, self.supplier_id)

    def is_for(self, account: str) -> bool:
        """Return True if the form asks for data about an account (canonical CAIP-10)."""
        tags = (self.tags[at : at + _TAG_CHARS] for at in range(0, len(self.tags), _TAG_CHARS))
        return _get_account_tag(account) in tags


def get_form_url(
    app: _Context, payment: Payment, supplier: DataSupplier, accounts: Mapping[str, str]
) -> str:
    """Return the URL of a form for some accounts, given as {canonical: as written}.

    It is the same at every request of the same credential.
    """
    tags = "".join(sorted(_get_account_tag(account) for account in accounts))
    ticket = FormTicket(payment.id, supplier.app_id, supplier.source_ids[0], tags)
    text = orjson.dumps(list(ticket)).decode()
    code, *_ = app.cipher.derive("form", text)
    token = base64.urlsafe_b64encode(code + text.encode()).decode().rstrip("=")
    listed = quote(",".join(accounts.values()), safe="")
    return f"{app.links.base_url}/collect/?pid={payment.id}&accounts={listed}&t={token}"


def parse_token(app: StorageContext, token: str) -> FormTicket | None:
    """Return the content of a token; None if Florin did not make it."""
    try:
        decoded = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        code, text = decoded[:_CODE_BYTES], decoded[_CODE_BYTES:].decode()
        codes = app.cipher.derive("form", text)
    except ValueError:
        return None
    if not any(hmac.compare_digest(code, each_code) for each_code in codes):
        return None
    return FormTicket(*orjson.loads(text))


def _get_account_tag(account: str) -> str:
    """Return the tag of an account in a token."""
    return hashlib.sha256(account.encode()).hexdigest()[:_TAG_CHARS]
