"""The commands about receipts and their keys, and their options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from florin_server.cli.options import RPC_URL, HomeOption, given, group
from florin_server.cli.secret_options import read_urls

receipt_keys = group("List, rotate and revoke the keys that sign receipts.")

GROUPS = {"receipt-keys": receipt_keys}

KeyId = Annotated[str, typer.Argument(help="Name of the key, as `list` tells it.")]


@receipt_keys.command("list")
def receipt_keys_list(home: HomeOption = None) -> None:
    """List all keys, and which of them signs."""
    from florin_server.cli.receipts import keys as command

    command.show(given(home=home))


@receipt_keys.command("rotate")
def receipt_keys_rotate(home: HomeOption = None) -> None:
    """Make a new key, which signs ten minutes later; receipts that others signed stay good."""
    from florin_server.cli.receipts import keys as command

    command.rotate(given(home=home))


@receipt_keys.command("revoke")
def receipt_keys_revoke(key_id: KeyId, home: HomeOption = None) -> None:
    """Publish a key no longer: nothing that it ever signed verifies from then on."""
    from florin_server.cli.receipts import keys as command

    command.revoke(given(home=home), key_id)


def verify_receipt(  # noqa: PLR0917  (typer gives them by name)
    file: Annotated[Path, typer.Argument(help="The receipt, a JWS in compact form.")],
    rpc_url: Annotated[
        str | None,
        typer.Option(
            "--rpc-url",
            metavar="URL|@FILE",
            help=f"JSON-RPC address of a node of the chain.  [default: ${RPC_URL}]",
        ),
    ] = None,
    jwks: Annotated[
        str | None,
        typer.Option(
            help="Key set of the issuer: a file, or an https address.  "
            "[default: the key set that the issuer publishes]"
        ),
    ] = None,
    issuer: Annotated[
        str | None,
        typer.Option(help="Address of the installation that it has to be of."),
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="Thumbprint of the key that has to have signed it.")
    ] = None,
    confirmations: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Least number of blocks that make it final on an EVM chain; on a network of the "
            "registry its seconds and tag hold as well.  [default: the registry's, else 12 blocks "
            "of 30 seconds]",
        ),
    ] = None,
) -> None:
    """Check a receipt by its signature and on the chain, without the installation that signed it.

    Ends with 0 if all of it is true, 1 if it is not what the issuer signed, 3 if the chain does not
    bear it out, 5 if that cannot be told now, or by this node, and 8 if none of --issuer, --jwks
    and --key says whose receipt it has to be: anyone can sign one as its own issuer.
    """
    from florin_server.cli.operation import misused
    from florin_server.cli.receipts import verify as command

    urls = read_urls([] if rpc_url is None else [rpc_url], "--rpc-url", RPC_URL)
    if len(urls) != 1:
        misused(f"which node of the chain is asked? --rpc-url URL, or {RPC_URL}")
    options = command.VerifyOptions(file, urls[0], jwks, issuer, key, confirmations)
    command.run(options)
