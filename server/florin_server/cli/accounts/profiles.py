"""`florin merchants list`, `show` and `destinations`: the partner's view of its merchants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING

from florin.v1 import account_pb2

from florin_server.cli.console import (
    console,
    print_hint,
    print_json,
    print_table,
)
from florin_server.cli.exits import ExitStatus
from florin_server.cli.operation import format_minute, usage_error
from florin_server.cli.payments import words
from florin_server.cli.server import ConnectionOptions, connect_as_partner

if TYPE_CHECKING:
    from florin_client import Client

_COLUMNS = ("Merchant id", "Status", "Created", "Email", "Name")
_DESTINATION_COLUMNS = ("Asset", "Account", "Settlement id")
_PAGE_MAX = 100


def list_merchants(connection: ConnectionOptions, search: str | None, limit: int) -> None:
    """Print the newest `limit` merchants."""
    with connect_as_partner(connection) as (client, _):
        rows = client.admin.list_merchants(search=search, limit=min(limit, _PAGE_MAX))
        # one more row than printed shows whether there are more
        merchant_records = list(islice(rows, limit + 1))
    more = len(merchant_records) > limit
    if not print_json({"merchants": merchant_records[:limit], "more": more}):
        print_table(_COLUMNS, map(_to_row, merchant_records[:limit]))
        if more:
            print_hint(f"There are more than {limit} merchants: raise --limit to list them.")


def show_merchant(connection: ConnectionOptions, merchant_id: str | None) -> None:
    """Print one merchant and its destinations."""
    with connect_as_partner(connection) as (client, usual):
        merchant_profile = client.admin.get_merchant(
            _require_merchant_id(merchant_id, usual)
        ).merchant
    if print_json(merchant_profile):
        return
    facts = dict(zip(_COLUMNS, _to_row(merchant_profile.merchant), strict=True))
    for what, fact in facts.items():
        console.print(f"{what:<11}  {fact}")
    support = merchant_profile.merchant.support_email, merchant_profile.merchant.support_url
    console.print(f"{'Support':<11}  {', '.join(filter(None, support)) or '-'}")
    _print_destinations(merchant_profile.settlements)


def update_destinations(
    connection: ConnectionOptions,
    merchant_id: str | None,
    additions: Iterable[str],
    removals: Iterable[str],
    *,
    yes: bool,
) -> None:
    """Apply the changes, then print the destinations."""
    additions_by_asset, gone = _parse_destinations(additions), [*dict.fromkeys(removals)]
    if twice := sorted(additions_by_asset.keys() & {*gone}):
        usage_error(f"{twice[0]} is in both --set and --remove")
    with connect_as_partner(connection) as (client, usual):
        named = _require_merchant_id(merchant_id, usual)
        now = client.admin.list_settlements(named)
        if additions_by_asset or gone:
            _apply_changes(client, named, now, additions_by_asset, gone, yes=yes)
            now = client.admin.list_settlements(named)
    if not print_json(now):
        _print_destinations(now)


def _apply_changes(
    client: Client,
    merchant_id: str,
    current: account_pb2.Settlements,
    additions: Mapping[str, str],
    removals: list[str],
    *,
    yes: bool,
) -> None:
    crypto_settlements = {
        _normalize_asset(crypto_settlement.asset): crypto_settlement
        for crypto_settlement in current.crypto
    }
    if unknown := [
        asset for asset in removals if _normalize_asset(asset) not in crypto_settlements
    ]:
        usage_error(f"merchant {merchant_id} has no destination for {unknown[0]}")
    for asset, account in additions.items():
        before = crypto_settlements.get(_normalize_asset(asset))
        print_hint(f"{asset}: {before.destination if before else 'held'} -> {account}")
    for asset in removals:
        print_hint(f"{asset}: {crypto_settlements[_normalize_asset(asset)].destination} -> held")
    if not words.confirm(f"Change the destinations of {merchant_id}?", yes=yes):
        print_hint("Nothing changed.")
        raise SystemExit(int(ExitStatus.REFUSED))
    new = {
        asset: account
        for asset, account in additions.items()
        if _normalize_asset(asset) not in crypto_settlements
    }
    if new:
        client.admin.create_crypto_settlements(merchant_id, destinations=new)
    for asset, account in additions.items():
        if (before := crypto_settlements.get(_normalize_asset(asset))) is not None:
            client.admin.update_crypto_settlement(merchant_id, before.id, destination=account)
    for asset in removals:
        client.admin.delete_crypto_settlement(
            merchant_id, crypto_settlements[_normalize_asset(asset)].id
        )


def _normalize_asset(asset: str) -> str:
    """Return an asset id to compare: EVM addresses ignore case, Solana addresses do not."""
    return asset.lower() if asset.startswith("eip155:") else asset


def _require_merchant_id(merchant_id: str | None, default: str) -> str:
    named = merchant_id or default
    if not named:
        usage_error("no merchant is named: pass its id, or use --merchant")
    return named


def _parse_destinations(texts: Iterable[str]) -> dict[str, str]:
    account_by_asset = {}
    for text in texts:
        asset, equals, account = text.partition("=")
        if not equals or not asset or not account:
            usage_error(f"{text[:80]!r} is not a destination: write ASSET=ACCOUNT")
        account_by_asset[asset] = account
    return account_by_asset


def _print_destinations(settlements: account_pb2.Settlements) -> None:
    print_table(
        _DESTINATION_COLUMNS,
        (
            (crypto_settlement.asset, crypto_settlement.destination, crypto_settlement.id)
            for crypto_settlement in settlements.crypto
        ),
    )
    for fiat_settlement in settlements.fiat:
        console.print(
            f"bank account ({fiat_settlement.bank_type}, {fiat_settlement.status})  "
            f"{fiat_settlement.id}"
        )


def _to_row(merchant_record: account_pb2.MerchantRecord) -> tuple[str, ...]:
    status = (
        account_pb2.MerchantStatus.Name(merchant_record.status)
        .removeprefix("MERCHANT_STATUS_")
        .lower()
    )
    return (
        merchant_record.id,
        status,
        format_minute(merchant_record, "created_at"),
        merchant_record.email or "-",
        merchant_record.name,
    )
