"""Search of payments by id or link, order reference, transaction, account or amount."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Final, Protocol

from florin_server.accounts.store import keys
from florin_server.db.context import StorageContext
from florin_server.db.engine.columns import U256_MAX
from florin_server.domain.caip import canonicalize_account
from florin_server.domain.money import CURRENCIES
from florin_server.domain.payments.links import resolve_payment_id
from florin_server.money.payments.store import search
from florin_server.money.payments.store.list_rows import PaymentListRow, list_rows
from florin_server.rails.context import ChainContext
from florin_server.settings.context import SettingsContext


class _Context(ChainContext, SettingsContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


SEARCH_CHARS_MAX: Final = 512
# rows of an answer
_HITS_MAX: Final = 20
# "12.50", "1,250.00 USD", "USD 5"
_AMOUNT = re.compile(
    r"(?:(?P<before>[A-Za-z]{2,12})\s*)?(?P<number>[0-9][0-9,]{0,78}(?:\.[0-9]{1,36})?)"
    r"(?:\s*(?P<after>[A-Za-z]{2,12}))?"
)
_HASH = re.compile(r"0x[0-9A-Fa-f]{64}")
# hashes, signatures, and the transactions of test payments
_TRANSACTION = re.compile(r"(?:test:)?[0-9A-Za-z_]{16,128}")


async def find_partner_id(app: StorageContext, key_id: str) -> str | None:
    """Return the partner of an API key; None for an unknown key, or one of a wallet."""
    key = await app.store.read(keys.find_key(key_id))
    return None if key is None else key.partner_id


async def search_payments(
    app: _Context, partner_id: str, text: str, *, live: bool
) -> list[PaymentListRow]:
    """Return the payments of a partner that a text names, the newest first, at most 20.

    References and transactions are exact.
    """
    text = text.strip()
    if not text or len(text) > SEARCH_CHARS_MAX:
        return []
    terms = _parse_terms(app, text, live=live)
    ids = await app.store.scan_standby(
        search.find_ids(partner_id, terms, live=live, limit=_HITS_MAX)
    )
    return await app.store.read(list_rows(ids, app.clock.now_us()))


def _parse_terms(app: _Context, text: str, *, live: bool) -> search.SearchTerms:
    tx_hash = text.lower() if _HASH.fullmatch(text) else text
    is_transaction = _TRANSACTION.fullmatch(text) is not None
    return search.SearchTerms(
        text=text,
        payment_id=resolve_payment_id(text, app.links.hosts),
        tx_hash=tx_hash if is_transaction else "",
        # a JSON text in a JSON array
        tx_output=json.dumps([json.dumps(tx_hash)]),
        chain_ids=sorted(app.rails),
        payers=_list_payers(app, text),
        values=_list_values(app, text, live=live),
    )


def _list_payers(app: ChainContext, text: str) -> Sequence[str]:
    """Return the accounts that a text can mean: an account, or an address on any chain."""
    candidates = [text] if ":" in text else [f"{chain_id}:{text}" for chain_id in app.rails]
    payers = []
    for candidate in candidates:
        try:
            payers.append(canonicalize_account(candidate, checksum=False))
        except ValueError:
            continue
    return payers


def _list_values(app: ChainContext, text: str, *, live: bool) -> dict[int, list[str]]:
    """Return the minor units that an amount can mean, each with the units that it fits."""
    match = _AMOUNT.fullmatch(text)
    if match is None or (match["before"] and match["after"]):
        return {}
    symbol = (match["before"] or match["after"] or "").upper()
    decimals = {f"iso4217/{code}": CURRENCIES[code].decimals for code in CURRENCIES}
    symbols = {f"iso4217/{code}": code for code in CURRENCIES}
    for _, asset in app.list_assets(live=live).values():
        decimals[f"caip19/{asset.id}"] = asset.decimals
        symbols[f"caip19/{asset.id}"] = asset.symbol.upper()
    try:
        amount = Decimal(match["number"].replace(",", ""))
    except InvalidOperation:
        return {}
    values: dict[int, list[str]] = {}
    for unit, places in decimals.items():
        minor_units = amount.scaleb(places)
        fits = minor_units == minor_units.to_integral_value() and minor_units <= U256_MAX
        if fits and symbol in {"", symbols[unit]}:
            values.setdefault(int(minor_units), []).append(unit)
    return values
