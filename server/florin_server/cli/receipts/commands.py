"""Define the commands for receipts and receipt keys, and their options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from florin_server.cli.options import (
    RPC_URL_VARIABLE,
    HomeOption,
    build_overrides,
    create_group,
)
from florin_server.cli.secret_options import read_urls

receipt_keys = create_group("List, rotate and revoke the keys that sign receipts.")

GROUPS = {"receipt-keys": receipt_keys}

KeyId = Annotated[str, typer.Argument(help="Key id, from `florin receipt-keys list`.")]


@receipt_keys.command("list")
def receipt_keys_list(home: HomeOption = None) -> None:
    """List receipt keys, and show which one signs.

    Example: `florin receipt-keys list`
    """
    from florin_server.cli.receipts import keys as command

    command.list_keys(build_overrides(home=home))


@receipt_keys.command("rotate")
def receipt_keys_rotate(home: HomeOption = None) -> None:
    """Create a receipt key, which signs in ten minutes.

    Receipts that older keys signed stay valid.

    Example: `florin receipt-keys rotate`
    """
    from florin_server.cli.receipts import keys as command

    command.rotate_key(build_overrides(home=home))


@receipt_keys.command("revoke")
def receipt_keys_revoke(key_id: KeyId, home: HomeOption = None) -> None:
    """Revoke a key; its receipts no longer verify.

    Florin stops publishing the key.

    Example: `florin receipt-keys revoke KEY_ID`
    """
    from florin_server.cli.receipts import keys as command

    command.revoke_key(build_overrides(home=home), key_id)


def verify_receipt(  # noqa: PLR0917  (typer gives them by name)
    file: Annotated[Path, typer.Argument(help="File with the receipt, a compact JWS.")],
    rpc_url: Annotated[
        str | None,
        typer.Option(
            "--rpc-url",
            metavar="URL|@FILE",
            help=f"JSON-RPC URL of a node of the chain.  [default: ${RPC_URL_VARIABLE}]",
        ),
    ] = None,
    jwks: Annotated[
        str | None,
        typer.Option(
            help="Key set of the issuer: a file or an https URL.  "
            "[default: the key set that the issuer publishes]"
        ),
    ] = None,
    issuer: Annotated[
        str | None,
        typer.Option(help="URL of the installation that must have issued the receipt."),
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="Thumbprint of the key that must have signed it.")
    ] = None,
    confirmations: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Lowest confirmation depth on an EVM chain; for a network in the registry, the "
            "registry's seconds and finality tag apply too.  [default: from the registry, else "
            "12 blocks and 30 seconds]",
        ),
    ] = None,
) -> None:
    """Verify a receipt: its signature, and the chain.

    Does not need the installation that signed the receipt. Exit status: 0 verified; 1 not what the
    issuer signed; 3 the chain does not confirm it; 5 undecided, try later or another node; 8 no
    issuer is named. Name the issuer with --issuer, --jwks or --key: anyone can sign a receipt as
    their own issuer.

    Example: `florin verify-receipt receipt.jws --issuer https://pay.example`
    """
    from florin_server.cli.operation import usage_error
    from florin_server.cli.receipts import verify as command

    urls = read_urls([] if rpc_url is None else [rpc_url], "--rpc-url", RPC_URL_VARIABLE)
    if len(urls) != 1:
        usage_error(f"name one node of the chain: use --rpc-url URL, or set {RPC_URL_VARIABLE}")
    options = command.VerifyOptions(file, urls[0], jwks, issuer, key, confirmations)
    command.verify_receipt(options)
