"""The commands and their options; each command's work is a module of its own, imported when used.

Importing everything would cost a second before `--help` could answer.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from florin_server.cli.accounts import commands as accounts
from florin_server.cli.chains import commands as chains
from florin_server.cli.options import (
    Group,
    GrpcPort,
    HomeOption,
    HttpPort,
    YesOption,
    given,
    paying,
)
from florin_server.cli.payments import commands as payments
from florin_server.cli.receipts import commands as receipts
from florin_server.cli.screening import commands as screening
from florin_server.cli.secret_options import read_urls
from florin_server.cli.server import At
from florin_server.cli.service import commands as service_commands
from florin_server.cli.store import commands as store
from florin_server.cli.webhooks import commands as webhooks

# how the shells' scripts ask what may be typed next
COMPLETES = "_FLORIN_COMPLETE"

PayOption = Annotated[
    str | None,
    typer.Option(
        "--option",
        help="Its number, its asset's symbol or CAIP-19 id.  [default: it asks, or 1]",
    ),
]
PayData = Annotated[
    Path | None,
    typer.Option("--data", help="JSON file with what is asked about the buyer."),
]
PayKeystores = Annotated[
    list[Path] | None,
    typer.Option(
        "--keystore",
        help="A key that pays: a keystore (version 3), or a key pair of Solana; one of each.  "
        "[default: new keys, for test data]",
    ),
]
PayPasswordFile = Annotated[
    Path | None,
    typer.Option(
        "--password-file",
        envvar="FLORIN_WALLET_PASSWORD_FILE",
        show_envvar=False,
        help="File with the keystore's password.  "
        "[default: $FLORIN_WALLET_PASSWORD_FILE, or it asks]",
    ),
]
PayChains = Annotated[
    list[str] | None,
    typer.Option("--chain", help="CAIP-2 id of a chain to pay on.  [default: the embedded ones]"),
]
PayRpcUrls = Annotated[
    list[str] | None,
    typer.Option(
        "--rpc-url",
        metavar="CHAIN=URL|@FILE",
        help="Its node, for what the wallet sends: eip155:8453=https://… or a file with that.  "
        "[default: $FLORIN_WALLET_RPC_URL]",
    ),
]
PayMaximum = Annotated[
    str | None,
    typer.Option(
        "--max",
        metavar="AMOUNT",
        help='Pay at most this: "12.50 USD", "12.50 USDC". --yes needs it for real money.',
    ),
]
PayMaxFee = Annotated[
    str | None,
    typer.Option(
        "--max-fee",
        metavar="COIN",
        help="Most that the wallet's own transactions cost, in the chain's coin.  "
        "[default: a limit for each chain]",
    ),
]

app = Group(
    name="florin",
    help="Self-hosted crypto payment gateway.",
    no_args_is_help=True,
    add_completion=False,
    # markup would take "[default: …]" for its own
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        import florin_server

        typer.echo(f"florin {florin_server.__version__}")
        raise typer.Exit


@app.callback()
def florin(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Tell the version."),
    ] = False,
) -> None:
    """Self-hosted crypto payment gateway."""


@app.command()
def up(home: HomeOption = None, http_port: HttpPort = None, grpc_port: GrpcPort = None) -> None:
    """Run everything in one process: REST, gRPC, settlement, an embedded test chain."""
    from florin_server.cli.service import up as command

    command.run(given(home=home, http_port=http_port, grpc_port=grpc_port))


@app.command()
def serve(
    home: HomeOption = None,
    http_port: HttpPort = None,
    grpc_port: GrpcPort = None,
    workers: Annotated[
        int,
        typer.Option(min=1, max=64, help="Processes on these ports; more than one on PostgreSQL."),
    ] = 1,
    no_settling: Annotated[
        bool,
        typer.Option(
            "--no-settling", help="Only answer callers: `florin worker` settles, elsewhere."
        ),
    ] = False,
) -> None:
    """Run the service without test accounts, in one process or in several.

    Of several, one that dies is started again. SIGHUP replaces one after the other, with the
    settings and certificates as they are then, while the rest answers.
    """
    from florin_server.boot.role import ANSWERS, EVERYTHING

    options = given(home=home, http_port=http_port, grpc_port=grpc_port)
    role = ANSWERS if no_settling else EVERYTHING
    if workers > 1:
        from florin_server.cli.service import supervised

        supervised.run(options, role, workers)
    else:
        from florin_server.cli.service import serve as command

        command.run(options, role)


@app.command()
def worker(home: HomeOption = None) -> None:
    """Settle, pay out and tidy up, for a service whose callers others answer."""
    from florin_server.boot.role import SETTLES
    from florin_server.cli.service import serve as command

    command.run(given(home=home), SETTLES)


@app.command()
def demo(
    home: HomeOption = None,
    http_port: HttpPort = None,
    grpc_port: GrpcPort = None,
    start: Annotated[
        bool, typer.Option("--up", help="Start Florin first and leave it running afterwards.")
    ] = False,
) -> None:
    """Drive one payment through the public REST API, as a merchant and as a wallet."""
    from florin_server.cli.service import demo as command

    options = given(home=home, http_port=http_port, grpc_port=grpc_port)
    # the demo is welcome to a service that is already there
    if start and not command.has_service(options):
        from florin_server.cli.service import up as service

        service.run(options, first=command.pay)
    else:
        command.run(options)


@app.command()
@paying
def pay(
    link: Annotated[str, typer.Argument(help="The payment's link, or its id.")],
    *,
    option: PayOption = None,
    data: PayData = None,
    keystore: PayKeystores = None,
    password_file: PayPasswordFile = None,
    chain: PayChains = None,
    rpc_url: PayRpcUrls = None,
    maximum: PayMaximum = None,
    max_fee: PayMaxFee = None,
    yes: YesOption = False,
    at: At,
) -> None:
    """Pay a payment's link as a wallet, and show every step.

    New keys pay test data: the embedded chains give them what they need. Real money is paid with a
    key that is named, once it was shown what is signed. Only what the option says is signed.
    """
    from florin_server.cli.wallet import pay as command
    from florin_server.cli.wallet.keys import Files

    options = command.PayOptions(
        link,
        option,
        data,
        Files(tuple(keystore or ()), password_file),
        tuple(chain or ()),
        read_urls(rpc_url or (), "--rpc-url", "FLORIN_WALLET_RPC_URL"),
        yes,
        maximum,
        max_fee,
    )
    command.run(at, options)


# what is printed there is Jupyter's
@app.command(plain=True)
def lab(  # noqa: PLR0917  (typer gives them by name)
    folder: Annotated[
        Path | None,
        typer.Argument(
            help="Where the notebooks are opened; copies are put there if it has none."
            "  [default: the checkout's, else florin-notebooks]"
        ),
    ] = None,
    home: HomeOption = None,
    http_port: HttpPort = None,
    grpc_port: GrpcPort = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            min=0,
            max=65535,
            help="Port of Jupyter, 0 = any.  [default: 8888 or the next]",
        ),
    ] = None,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Only tell where Jupyter is.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Install what is missing without asking.")
    ] = False,
) -> None:
    """Open the notebooks in Jupyter, on a sandbox that runs beside them.

    A Florin that runs on the state folder is used, else one is started. FLORIN_TARGET names one
    elsewhere.
    """
    from florin_server.cli.service import lab as command

    options = given(home=home, http_port=http_port, grpc_port=grpc_port)
    command.run(options, folder, port, browser=not no_browser, yes=yes)


@app.command()
def simulate(  # noqa: PLR0917  (typer gives them by name)
    home: HomeOption = None,
    seed: Annotated[
        int | None, typer.Option(help="The same one tells the same story.  [default: 1]")
    ] = None,
    payments: Annotated[int | None, typer.Option(help="How many.  [default: 1000]")] = None,
    days: Annotated[int | None, typer.Option(help="In how many days.  [default: 7]")] = None,
    begin: Annotated[
        datetime | None,
        typer.Option(
            formats=["%Y-%m-%d"],
            help="First day (UTC), on a new state folder.  [default: so that they end now]",
        ),
    ] = None,
    merchants: Annotated[int | None, typer.Option(help="Of how many.  [default: 5]")] = None,
    abandoners: Annotated[
        float | None, typer.Option(help="Share of buyers who leave.  [default: 0.15]")
    ] = None,
    reorgs: Annotated[
        float | None,
        typer.Option(help="Share of payments whose EVM block is replaced.  [default: 0.02]"),
    ] = None,
    slow_chain: Annotated[
        str | None, typer.Option(help="A chain slower than it promises: evm or solana.")
    ] = None,
    outage_chain: Annotated[
        str | None, typer.Option(help="The chain that stops, once.  [default: evm]")
    ] = None,
    outage_minutes: Annotated[
        int | None, typer.Option(help="How long it stops.  [default: 0]")
    ] = None,
    confirmations: Annotated[
        int | None,
        typer.Option(
            help="Blocks that make a payment final on EVM.  [default: as in the settings]"
        ),
    ] = None,
    volatility: Annotated[
        float | None, typer.Option(help="Percent that a coin's price moves in a day.  [default: 0]")
    ] = None,
    jump: Annotated[
        float | None, typer.Option(help="Percent that it changes at once, once.  [default: 0]")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Tell progress and result as lines of JSON.")
    ] = False,
) -> None:
    """Let merchants and buyers use a stopped sandbox for days, in seconds."""
    from florin_server.cli.service import simulate as command

    chosen = given(
        seed=seed,
        payments=payments,
        days=days,
        merchants=merchants,
        abandoners=abandoners,
        reorgs=reorgs,
        slow_chain=slow_chain,
        outage_chain=outage_chain,
        outage_minutes=outage_minutes,
        confirmations=confirmations,
        volatility=volatility,
        jump=jump,
    )
    command.run(given(home=home), chosen, begin=begin, as_json=as_json)


@app.command()
def doctor(home: HomeOption = None) -> None:
    """Check state, store, ledger, chains and tokens, and say what is wrong with each."""
    from florin_server.cli.service import doctor as command

    command.run(given(home=home))


@app.command()
def migrate(
    home: HomeOption = None,
    status: Annotated[
        bool, typer.Option("--status", help="Only tell the schema; ends with 1 if it is another.")
    ] = False,
    sql: Annotated[bool, typer.Option("--sql", help="Only print the statements.")] = False,
) -> None:
    """Bring the store to the schema of this Florin, as each start does too.

    A store that a newer Florin wrote is refused, and stays as it is.
    """
    from florin_server.cli.store import migrate as command

    command.run(given(home=home), status=status, sql=sql)


@app.command()
def gateway(  # noqa: PLR0917  (typer gives them by name)
    upstream: Annotated[str, typer.Option(help="gRPC address of the service, host:port.")],
    host: Annotated[
        str | None, typer.Option(help="Address to listen on.  [default: 127.0.0.1]")
    ] = None,
    http_port: HttpPort = None,
    home: HomeOption = None,
    tls: Annotated[
        bool, typer.Option("--tls", help="Reach the service over TLS, as any option below does.")
    ] = False,
    ca: Annotated[
        Path | None, typer.Option(help="PEM file of who vouches for it.  [default: the system's]")
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option(help="PEM file of a client certificate.")
    ] = None,
    key: Annotated[Path | None, typer.Option(help="PEM file of its key.")] = None,
    server_name: Annotated[
        str | None, typer.Option(help="Name in the service's certificate.  [default: the host]")
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Allow plain text to another machine.")
    ] = False,
) -> None:
    """Run the REST gateway alone, in front of a Florin elsewhere.

    Another machine is reached over TLS only. Both sides need one FLORIN_GATEWAY_TOKEN, unless they
    share the state folder: it lets the service believe who calls here, for limits by address.
    """
    from florin_server.boot.servers.upstream import Link
    from florin_server.cli.service import gateway as command

    link = Link(tls, ca, certificate, key, server_name, insecure)
    command.run(upstream, link, given(home=home, host=host, http_port=http_port))


@app.command()
def export(  # noqa: PLR0917  (typer gives them by name)
    to: Annotated[Path, typer.Option(help="Folder; a later run adds what is new or has changed.")],
    format_: Annotated[str, typer.Option("--format", help="csv, jsonl or parquet.")] = "csv",
    table: Annotated[
        list[str] | None, typer.Option(help="One table, and again for more.  [default: all]")
    ] = None,
    since: Annotated[
        Path | None,
        typer.Option(help="export.json of an export elsewhere: only what is newer than that."),
    ] = None,
    personal: Annotated[
        bool, typer.Option("--personal", help="Personal data too, such as what buyers told.")
    ] = False,
    server: Annotated[
        str | None,
        typer.Option(
            help="gRPC address, host:port, of a Florin that is asked with a merchant's key.  "
            "[default: the store is read]"
        ),
    ] = None,
    tls: Annotated[
        bool, typer.Option("--tls", help="Reach the server over TLS, as --ca does.")
    ] = False,
    ca: Annotated[
        Path | None, typer.Option(help="PEM file of who vouches for it.  [default: the system's]")
    ] = None,
    home: HomeOption = None,
) -> None:
    """Write payments, the books and all that belongs to them as tables, for analysts.

    Whatever runs goes on meanwhile. With --server only what a merchant may know is written: its
    payments and refunds.
    """
    from florin_server.cli.exports import export as command

    wanted = command.Wanted(to, format_, table or (), since, personal)
    if server is None:
        command.run(given(home=home), wanted)
    else:
        command.run_server(server, wanted, tls=tls, ca=ca)


app.command("listen")(webhooks.listen)
app.command("trigger")(webhooks.trigger)
app.command()(receipts.verify_receipt)


@app.command(plain=True)
def completion(
    shell: Annotated[str, typer.Argument(help="bash, zsh or fish.")],
) -> None:
    """Print what makes a shell complete commands and options, to be saved where it looks."""
    from florin_server.cli.service import completion as command

    command.show(shell, COMPLETES)


for _module in (accounts, chains, payments, receipts, screening, service_commands, store, webhooks):
    for _name, _group in _module.GROUPS.items():
        app.add_typer(_group, name=_name)
