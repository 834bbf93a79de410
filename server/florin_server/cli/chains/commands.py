"""The commands about real chains, and their options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from florin_server.cli.options import RPC_URL, HomeOption, given, group
from florin_server.cli.secret_options import read_urls

chain = group("Add real chains, put the settlement contract on them, list and remove them.")

GROUPS = {"chain": chain}

Name = Annotated[str, typer.Argument(help="The chain's name, or its CAIP-2 id.")]
OwnName = Annotated[
    str | None, typer.Option("--name", help="What a chain that is not registered is called.")
]
RpcUrls = Annotated[
    list[str] | None,
    typer.Option(
        "--rpc-url",
        metavar="URL|@FILE",
        help="JSON-RPC address of a node; several, the preferred one first.  "
        f"[default: ${RPC_URL}, or it asks]",
    ),
]
ChainId = Annotated[
    str | None, typer.Option("--chain", help="CAIP-2 id that the node must serve, eip155:8453.")
]
Treasury = Annotated[
    str | None,
    typer.Option("--treasury", help="Account that receives fees, and for merchants without one."),
]
TreasuryKeystore = Annotated[
    Path | None, typer.Option("--treasury-keystore", help="Its keystore, to pay refunds from.")
]
TreasuryKeyFile = Annotated[
    Path | None,
    typer.Option("--treasury-key-file", help="A file with its key in hex; kept as a keystore."),
]
NewTreasury = Annotated[
    bool, typer.Option("--new-treasury", help="Make a new key for it, kept as a keystore.")
]
RelayerKeystores = Annotated[
    list[Path] | None,
    typer.Option("--relayer-keystore", help="A key that submits and pays for gas; repeatable."),
]
RelayerKeyFile = Annotated[
    Path | None,
    typer.Option("--relayer-key-file", help="A file with that key in hex; kept as a keystore."),
]
NewRelayer = Annotated[
    bool, typer.Option("--new-relayer", help="Make a new key for that, kept as a keystore.")
]
Tokens = Annotated[
    list[str] | None,
    typer.Option("--token", help="SYMBOL if registered, else ADDRESS:PEG:SYMBOL; repeatable."),
]
CoinOption = Annotated[bool, typer.Option("--coin", help="Take the chain's own coin, at a rate.")]
Live = Annotated[
    bool | None, typer.Option("--live/--test", help="For live data, or for test data.")
]
Confirmations = Annotated[
    int | None, typer.Option("--confirmations", min=1, help="Blocks that make a payment final.")
]
PollMs = Annotated[int | None, typer.Option("--poll-ms", min=10, help="Between looks at the head.")]
FeeMax = Annotated[
    int | None, typer.Option("--fee-max-gwei", min=1, help="The most for a unit of gas.")
]
TipMax = Annotated[
    int | None, typer.Option("--tip-max-gwei", min=1, help="The most of it that is a tip.")
]
Replace = Annotated[
    bool,
    typer.Option(
        "--replace",
        help="Settle through this release's contract; the one of before is still followed.",
    ),
]
Settler = Annotated[
    str | None, typer.Option("--settler", help="A settlement contract of your own deployment.")
]
Deploy = Annotated[
    bool | None,
    typer.Option("--deploy/--no-deploy", help="Put the settlement contract there if it is not."),
]
Opener = Annotated[
    bool,
    typer.Option("--opener", help="Take the opener too, for accounts that do not exist yet."),
]
Factories = Annotated[
    list[str] | None,
    typer.Option("--factory", help="A contract that may create such accounts; repeatable."),
]
NewKeystore = Annotated[Path, typer.Argument(help="The file to write; it must not be there.")]
KeyFile = Annotated[
    Path | None, typer.Option("--key-file", help="A file with a key in hex.  [default: a new key]")
]
OfSolana = Annotated[bool, typer.Option("--solana", help="For an account on Solana.")]
Yes = Annotated[bool, typer.Option("--yes", help="Ask nothing.")]
Force = Annotated[bool, typer.Option("--force", help="Even if payments on it are open.")]


@chain.command("add")
def chain_add(
    *,
    name: OwnName = None,
    rpc_urls: RpcUrls = None,
    chain_id: ChainId = None,
    treasury: Treasury = None,
    treasury_keystore: TreasuryKeystore = None,
    treasury_key_file: TreasuryKeyFile = None,
    new_treasury: NewTreasury = False,
    relayer_keystores: RelayerKeystores = None,
    relayer_key_file: RelayerKeyFile = None,
    new_relayer: NewRelayer = False,
    tokens: Tokens = None,
    coin: CoinOption = False,
    live: Live = None,
    confirmations: Confirmations = None,
    poll_ms: PollMs = None,
    fee_max_gwei: FeeMax = None,
    tip_max_gwei: TipMax = None,
    settler: Settler = None,
    opener: Opener = False,
    factories: Factories = None,
    deploy: Deploy = None,
    yes: Yes = False,
    home: HomeOption = None,
) -> None:
    """Add a chain: checks its node and every token, and writes it into the state folder."""
    from florin_server.cli.chains import add as command

    wishes = command.Wishes(
        name=name,
        rpc_urls=read_urls(rpc_urls or (), "--rpc-url", RPC_URL),
        chain_id=chain_id,
        treasury=treasury,
        treasury_keystore=treasury_keystore,
        treasury_key_file=treasury_key_file,
        new_treasury=new_treasury,
        relayer_keystores=tuple(relayer_keystores or ()),
        relayer_key_file=relayer_key_file,
        new_relayer=new_relayer,
        tokens=None if tokens is None else tuple(tokens),
        coin=coin,
        live=live,
        confirmations=confirmations,
        poll_ms=poll_ms,
        fee_max_gwei=fee_max_gwei,
        tip_max_gwei=tip_max_gwei,
        settler=settler,
        opener=opener,
        factories=tuple(factories or ()),
        deploy=deploy,
    )
    command.run(given(home=home), wishes, yes=yes)


@chain.command("deploy")
def chain_deploy(
    *,
    name: Name,
    opener: Opener = False,
    factories: Factories = None,
    replace: Replace = False,
    yes: Yes = False,
    home: HomeOption = None,
) -> None:
    """Put Florin's contracts on a chain, at the addresses that they have on every chain."""
    from florin_server.cli.chains import deploy as command

    command.run(
        given(home=home),
        name,
        opener=opener,
        factories=tuple(factories or ()),
        replace=replace,
        yes=yes,
    )


@chain.command("keystore")
def chain_keystore(
    path: NewKeystore,
    key_file: KeyFile = None,
    solana: OfSolana = False,
    home: HomeOption = None,
) -> None:
    """Make a keystore for a treasury or a relayer, and tell the address of its account."""
    from florin_server.cli.chains import keystores as command

    command.make(given(home=home), path, key_file, is_solana=solana)


@chain.command("list")
def chain_list(home: HomeOption = None) -> None:
    """List chains as their nodes tell them now, and what keeps them from working."""
    from florin_server.cli.chains import listing as command

    command.run(given(home=home))


@chain.command("remove")
def chain_remove(name: Name, force: Force = False, home: HomeOption = None) -> None:
    """Forget a chain; its keystores stay."""
    from florin_server.cli.chains import remove as command

    command.run(given(home=home), name, force=force)
