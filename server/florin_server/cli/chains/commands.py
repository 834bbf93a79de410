"""Define the commands for chains, and their options."""

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

chain = create_group("Add, list and remove chains; deploy the contracts.")

GROUPS = {"chain": chain}

ChainName = Annotated[str, typer.Argument(help="Name or CAIP-2 id of the chain.")]
ChainNameOption = Annotated[
    str | None, typer.Option("--name", help="Name for a chain that is not in the registry.")
]
RpcUrls = Annotated[
    list[str] | None,
    typer.Option(
        "--rpc-url",
        metavar="URL|@FILE",
        help="JSON-RPC URL of a node; repeatable, preferred node first.  "
        f"[default: ${RPC_URL_VARIABLE}, or ask]",
    ),
]
ChainId = Annotated[
    str | None,
    typer.Option("--chain", help="CAIP-2 id that the node must serve, e.g. eip155:8453."),
]
Treasury = Annotated[
    str | None,
    typer.Option(
        "--treasury",
        help="Account that receives fees, and the money of merchants without a destination.",
    ),
]
TreasuryKeystore = Annotated[
    Path | None,
    typer.Option("--treasury-keystore", help="Keystore of the treasury; refunds need it."),
]
TreasuryKeyFile = Annotated[
    Path | None,
    typer.Option(
        "--treasury-key-file",
        help="File with the treasury's key in hex; it is saved as a keystore.",
    ),
]
NewTreasury = Annotated[
    bool, typer.Option("--new-treasury", help="Create a treasury key and its keystore.")
]
RelayerKeystores = Annotated[
    list[Path] | None,
    typer.Option(
        "--relayer-keystore",
        help="Keystore of a relayer, which submits transactions and pays for gas; repeatable.",
    ),
]
RelayerKeyFile = Annotated[
    Path | None,
    typer.Option(
        "--relayer-key-file",
        help="File with the relayer's key in hex; it is saved as a keystore.",
    ),
]
NewRelayer = Annotated[
    bool, typer.Option("--new-relayer", help="Create a relayer key and its keystore.")
]
Tokens = Annotated[
    list[str] | None,
    typer.Option(
        "--token",
        help="SYMBOL of a token in the registry, else ADDRESS:PEG:SYMBOL; repeatable.",
    ),
]
CoinOption = Annotated[bool, typer.Option("--coin", help="Accept the native coin, at a rate.")]
Live = Annotated[
    bool | None, typer.Option("--live/--test", help="Use the chain for live or for test data.")
]
Confirmations = Annotated[
    int | None, typer.Option("--confirmations", min=1, help="Confirmation depth, in blocks.")
]
PollMs = Annotated[
    int | None, typer.Option("--poll-ms", min=10, help="Milliseconds between reads of the head.")
]
FeeMax = Annotated[
    int | None, typer.Option("--fee-max-gwei", min=1, help="Most to pay per unit of gas.")
]
TipMax = Annotated[
    int | None, typer.Option("--tip-max-gwei", min=1, help="Most of that to pay as a tip.")
]
Replace = Annotated[
    bool,
    typer.Option(
        "--replace",
        help="Settle through this release's contract; Florin still follows the old one.",
    ),
]
Settler = Annotated[
    str | None,
    typer.Option("--settler", help="Address of a settlement contract that you deployed."),
]
Deploy = Annotated[
    bool | None,
    typer.Option("--deploy/--no-deploy", help="Deploy the settlement contract if it is missing."),
]
Opener = Annotated[
    bool,
    typer.Option("--opener", help="Use the opener too: it creates accounts at first use."),
]
Forwarder = Annotated[
    bool,
    typer.Option("--forwarder", help="Deploy the forwarder too: it gives payments addresses."),
]
Factories = Annotated[
    list[str] | None,
    typer.Option("--factory", help="Contract that can create such accounts; repeatable."),
]
NewKeystore = Annotated[Path, typer.Argument(help="File to write; it must not exist.")]
KeyFile = Annotated[
    Path | None, typer.Option("--key-file", help="File with a key in hex.  [default: a new key]")
]
SolanaOption = Annotated[bool, typer.Option("--solana", help="Create a keystore for Solana.")]
ChainYesOption = Annotated[bool, typer.Option("--yes", help="Do not ask; use the defaults.")]
Force = Annotated[
    bool, typer.Option("--force", help="Remove the chain even if it has open payments.")
]


@chain.command("add")
def chain_add(
    *,
    name: ChainNameOption = None,
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
    yes: ChainYesOption = False,
    home: HomeOption = None,
) -> None:
    """Add a chain, after checking its node and tokens.

    Asks for everything that no option says. Writes the chain's file into the state folder.

    Example: `florin chain add --rpc-url https://base.example --new-treasury`
    """
    from florin_server.cli.chains import add as command

    wishes = command.AddChainOptions(
        name=name,
        rpc_urls=read_urls(rpc_urls or (), "--rpc-url", RPC_URL_VARIABLE),
        chain_id=chain_id,
        treasury=treasury,
        treasury_keystore=treasury_keystore,
        treasury_key_file=treasury_key_file,
        new_treasury=new_treasury,
        relayer_keystores=tuple(relayer_keystores or ()),
        relayer_key_file=relayer_key_file,
        new_relayer=new_relayer,
        tokens=None if tokens is None else tuple(tokens),
        takes_coin=coin,
        is_live=live,
        confirmations=confirmations,
        poll_ms=poll_ms,
        fee_max_gwei=fee_max_gwei,
        tip_max_gwei=tip_max_gwei,
        settler=settler,
        takes_opener=opener,
        factories=tuple(factories or ()),
        deploys=deploy,
    )
    command.add_chain(build_overrides(home=home), wishes, yes=yes)


@chain.command("deploy")
def chain_deploy(
    *,
    name: ChainName,
    opener: Opener = False,
    forwarder: Forwarder = False,
    factories: Factories = None,
    replace: Replace = False,
    yes: ChainYesOption = False,
    home: HomeOption = None,
) -> None:
    """Deploy Florin's contracts on a chain.

    They have the same addresses on every chain. Stop Florin first.

    Example: `florin chain deploy base`
    """
    from florin_server.cli.chains import deploy as command

    options = command.DeployOptions(
        takes_opener=opener or bool(factories),
        takes_forwarder=forwarder,
        factories=tuple(factories or ()),
        replace=replace,
    )
    command.deploy_contracts(build_overrides(home=home), name, options, yes=yes)


@chain.command("keystore")
def chain_keystore(
    path: NewKeystore,
    key_file: KeyFile = None,
    solana: SolanaOption = False,
    home: HomeOption = None,
) -> None:
    """Create a keystore for a treasury or a relayer.

    Prints the address of its account.

    Example: `florin chain keystore treasury.json`
    """
    from florin_server.cli.chains import keystores as command

    command.create_keystore(build_overrides(home=home), path, key_file, is_solana=solana)


@chain.command("list")
def chain_list(home: HomeOption = None) -> None:
    """List chains with their assets, nodes and problems.

    Reads the current state from the nodes.

    Example: `florin chain list --json`
    """
    from florin_server.cli.chains import listing as command

    command.list_chains(build_overrides(home=home))


@chain.command("remove")
def chain_remove(name: ChainName, force: Force = False, home: HomeOption = None) -> None:
    """Remove a chain; its keystores stay.

    Stop Florin first.

    Example: `florin chain remove base`
    """
    from florin_server.cli.chains import remove as command

    command.remove_chain(build_overrides(home=home), name, force=force)
