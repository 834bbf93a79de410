"""Define the commands for payments' addresses, and their options."""

from __future__ import annotations

from typing import Annotated

import typer

from florin_server.cli.options import (
    HomeOption,
    build_overrides,
    create_group,
    with_merchant_connection,
    with_wallet_connection,
)
from florin_server.cli.server import ConnectionOptions

addresses = create_group("Open and list addresses of payments, for any wallet.")

GROUPS = {"addresses": addresses}

AddressAssets = Annotated[
    list[str] | None,
    typer.Option(
        "--asset",
        help="CAIP-19 asset to send, e.g. eip155:8453/erc20:0x…; repeatable.  "
        "[default: $FLORIN_EVM_ASSET, or the test dollar]",
    ),
]
RefundAccount = Annotated[
    str | None,
    typer.Option(
        "--refund-account",
        help="CAIP-10 account that gets back what is not part of the payment.  "
        "[default: the sender]",
    ),
]


@addresses.command("open")
@with_wallet_connection
def addresses_open(
    link: Annotated[str, typer.Argument(help="Payment link or payment id.")],
    *,
    asset: AddressAssets = None,
    refund_account: RefundAccount = None,
    connection: ConnectionOptions,
) -> None:
    """Show addresses to which any wallet can send a payment.

    Exchanges can send there too. The command computes each address again, and refuses an address
    that does not follow from its route. Name a refund account before you pay from an exchange: it
    credits nothing that comes back to it.

    Example: `florin addresses open pay_1a2b --asset eip155:8453/erc20:0x…`
    """
    from florin_server.cli.addresses import opening as command

    command.open_addresses(connection, link, asset or (), refund_account)


@addresses.command("sweep")
def addresses_sweep(
    chain_id: Annotated[str, typer.Argument(help="Chain of the addresses (CAIP-2).")],
    address: Annotated[
        list[str] | None, typer.Argument(help="Addresses to sweep.", show_default=False)
    ] = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="Sweep all listed addresses.")] = False,
    home: HomeOption = None,
) -> None:
    """List money left at addresses of a chain, or send it home.

    Without an address the command only lists. Florin books what went home, and returns it to its
    senders or holds it.

    Example: `florin addresses sweep eip155:8453 --all`
    """
    from florin_server.cli.addresses import sweeping as command

    command.sweep(build_overrides(home=home), chain_id, address or (), everything=everything)


@addresses.command("list")
@with_merchant_connection
def addresses_list(
    payment_id: Annotated[str, typer.Argument(help="Payment id or payment link.")],
    *,
    connection: ConnectionOptions,
) -> None:
    """List the addresses of a payment, and what arrived there.

    Example: `florin addresses list pay_1a2b`
    """
    from florin_server.cli.addresses import listing as command

    command.list_addresses(connection, payment_id)
