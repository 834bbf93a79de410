"""`florin merchants list`, `show` and `destinations`: merchants as their partner sees them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING

from florin.v1 import account_pb2

from florin_server.cli.console import console, note, table, told
from florin_server.cli.exits import Exit
from florin_server.cli.operation import minute, misused
from florin_server.cli.payments import words
from florin_server.cli.server import At, as_partner

if TYPE_CHECKING:
    from florin_client import Client

_COLUMNS = ("Merchant id", "Status", "Made", "Email", "Name")
_PLACES = ("Asset", "Account", "Settlement id")
_PAGE_MAX = 100


def show_all(at: At, search: str | None, limit: int) -> None:
    """Prints the newest merchants, as many as were asked for."""
    with as_partner(at) as (client, _):
        rows = client.admin.list_merchants(search=search, limit=min(limit, _PAGE_MAX))
        # one more tells that there is more
        found = list(islice(rows, limit + 1))
    more = len(found) > limit
    if not told({"merchants": found[:limit], "more": more}):
        table(_COLUMNS, map(_row, found[:limit]))
        if more:
            note(f"There are more than {limit}: --limit shows more of them.")


def show(at: At, merchant_id: str | None) -> None:
    """Prints one merchant."""
    with as_partner(at) as (client, usual):
        found = client.admin.get_merchant(_named(merchant_id, usual)).merchant
    if told(found):
        return
    facts = dict(zip(_COLUMNS, _row(found.merchant), strict=True))
    for what, fact in facts.items():
        console.print(f"{what:<11}  {fact}")
    _show(found.settlements)


def destinations(
    at: At, merchant_id: str | None, put: Iterable[str], remove: Iterable[str], *, yes: bool
) -> None:
    """Prints where money goes, after it was changed as wanted."""
    wanted, gone = _places(put), [*dict.fromkeys(remove)]
    if twice := sorted(wanted.keys() & {*gone}):
        misused(f"{twice[0]} is both set and removed")
    with as_partner(at) as (client, usual):
        named = _named(merchant_id, usual)
        now = client.admin.list_settlements(named)
        if wanted or gone:
            _change(client, named, now, wanted, gone, yes=yes)
            now = client.admin.list_settlements(named)
    if not told(now):
        _show(now)


def _change(
    client: Client,
    merchant_id: str,
    now: account_pb2.Settlements,
    wanted: Mapping[str, str],
    gone: list[str],
    *,
    yes: bool,
) -> None:
    known = {_key(one.asset): one for one in now.crypto}
    if unknown := [asset for asset in gone if _key(asset) not in known]:
        misused(f"{merchant_id} has no destination for {unknown[0]}")
    for asset, account in wanted.items():
        before = known.get(_key(asset))
        note(f"{asset}: {before.destination if before else 'held'} -> {account}")
    for asset in gone:
        note(f"{asset}: {known[_key(asset)].destination} -> held")
    if not words.agreed(f"Change where the money of {merchant_id} goes?", yes=yes):
        note("It is as it was.")
        raise SystemExit(int(Exit.REFUSED))
    new = {asset: account for asset, account in wanted.items() if _key(asset) not in known}
    if new:
        client.admin.create_crypto_settlements(merchant_id, destinations=new)
    for asset, account in wanted.items():
        if (before := known.get(_key(asset))) is not None:
            client.admin.update_crypto_settlement(merchant_id, before.id, destination=account)
    for asset in gone:
        client.admin.delete_crypto_settlement(merchant_id, known[_key(asset)].id)


def _key(asset: str) -> str:
    """Addresses of EVM chains are written in either case; those of Solana are not."""
    return asset.lower() if asset.startswith("eip155:") else asset


def _named(merchant_id: str | None, usual: str) -> str:
    named = merchant_id or usual
    if not named:
        misused("which merchant? say its id")
    return named


def _places(said: Iterable[str]) -> dict[str, str]:
    found = {}
    for one in said:
        asset, equals, account = one.partition("=")
        if not equals or not asset or not account:
            misused(f"{one[:80]!r} is not ASSET=ACCOUNT")
        found[asset] = account
    return found


def _show(settlements: account_pb2.Settlements) -> None:
    table(_PLACES, ((one.asset, one.destination, one.id) for one in settlements.crypto))
    for one in settlements.fiat:
        console.print(f"bank account ({one.bank_type}, {one.status})  {one.id}")


def _row(one: account_pb2.MerchantRecord) -> tuple[str, ...]:
    status = account_pb2.MerchantStatus.Name(one.status).removeprefix("MERCHANT_STATUS_").lower()
    return (one.id, status, minute(one, "created_at"), one.email or "-", one.name)
