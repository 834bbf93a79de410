"""`florin addresses open`: show addresses to which any wallet can send a payment."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from florin.v1 import address_pb2
from florin_client.wallet import WalletError, plan_transfer

from florin_server.cli.addresses.formatting import format_units
from florin_server.cli.console import console, fail, print_json
from florin_server.cli.operation import usage_error
from florin_server.cli.payments.amounts import format_amount
from florin_server.cli.server import ConnectionOptions, connect_as_wallet
from florin_server.cli.wallet.assets import get_chain_name, get_forwarder

# stands for the sender, which the address does not depend on
_ANY_ACCOUNT = "0x" + "00" * 20


def open_addresses(
    connection: ConnectionOptions,
    link: str,
    assets: Sequence[str],
    refund_account: str | None,
) -> None:
    """Print an address of a payment for each asset."""
    with connect_as_wallet(connection) as (client, place):
        chosen = assets or [place.get_value("FLORIN_EVM_ASSET")]
        if not all(chosen):
            usage_error("no asset is named: use --asset with a CAIP-19 id")
        answer = client.gateway.open_addresses(link, assets=chosen, refund_account=refund_account)
    try:
        for pay_address in answer.addresses:
            _check_address(pay_address)
    except WalletError as error:
        fail("Not shown", error)
    if print_json(answer):
        return
    for number, pay_address in enumerate(answer.addresses):
        if number:
            console.print()
        _print_address(pay_address)


def _check_address(pay_address: address_pb2.PayAddress) -> None:
    """Raise WalletError if an address does not follow from its route."""
    if pay_address.missing == "0":
        return
    chain_id = pay_address.asset.partition("/")[0]
    account = f"{chain_id}:{_ANY_ACCOUNT}"
    plan_transfer(pay_address, account, forwarder=get_forwarder(chain_id))


def _print_address(pay_address: address_pb2.PayAddress) -> None:
    amount, chain_id = pay_address.amount, pay_address.asset.partition("/")[0]
    end = datetime.fromtimestamp(pay_address.expires_at, UTC)
    facts = {
        "Address": pay_address.address,
        "Send": f"{format_amount(amount)} on {get_chain_name(chain_id)}",
        "Asset": pay_address.asset,
        "Received": format_units(amount, pay_address.received),
        "Missing": format_units(amount, pay_address.missing),
        "Until": f"{end:%Y-%m-%d %H:%M:%S} UTC",
        "Other money": f"goes to {pay_address.route.home}, which returns it",
        "Link": pay_address.uri,
    }
    width = max(map(len, facts))
    for name, fact in facts.items():
        console.print(f"{name:<{width}}  {fact}")
