"""Options of `florin pay`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

PayOption = Annotated[
    str | None,
    typer.Option(
        "--option",
        help="Option number, or symbol or CAIP-19 id of the asset.  [default: ask, or 1]",
    ),
]
PaySend = Annotated[
    bool,
    typer.Option(
        "--send",
        help="Pay by a plain transfer to an address of the payment, instead of a signature.",
    ),
]
PayX402 = Annotated[
    bool,
    typer.Option(
        "--x402",
        help="Pay by x402, as programs do: sign a transfer of the price, which Florin sends.",
    ),
]
PayData = Annotated[
    Path | None,
    typer.Option("--data", help="JSON file with the buyer data that the option requires."),
]
PayKeystores = Annotated[
    list[Path] | None,
    typer.Option(
        "--keystore",
        help="Key that pays: a keystore (version 3) or a Solana key pair; at most one of each.  "
        "[default: new keys, for test data only]",
    ),
]
PayPasswordFile = Annotated[
    Path | None,
    typer.Option(
        "--password-file",
        envvar="FLORIN_WALLET_PASSWORD_FILE",
        show_envvar=False,
        help="File with the password of the keystore.  "
        "[default: $FLORIN_WALLET_PASSWORD_FILE, or ask]",
    ),
]
PayChains = Annotated[
    list[str] | None,
    typer.Option("--chain", help="CAIP-2 id of a chain to pay on.  [default: embedded chains]"),
]
PayRpcUrls = Annotated[
    list[str] | None,
    typer.Option(
        "--rpc-url",
        metavar="CHAIN=URL|@FILE",
        help="Node for the wallet's transactions: eip155:8453=https://… or a file with that.  "
        "[default: $FLORIN_WALLET_RPC_URL]",
    ),
]
PayMaximum = Annotated[
    str | None,
    typer.Option(
        "--max",
        metavar="AMOUNT",
        help='Most to pay: "12.50 USD" or "12.50 USDC". Required by --yes for real money.',
    ),
]
PayMaxFee = Annotated[
    str | None,
    typer.Option(
        "--max-fee",
        metavar="COIN",
        help="Most that the wallet's own transactions can cost, in the chain's native coin.  "
        "[default: a limit per chain]",
    ),
]
