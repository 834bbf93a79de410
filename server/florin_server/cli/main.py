"""Define the commands and their options; import the code of a command only when it runs.

Importing all of it would delay `--help` by a second.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from florin_server.cli.accounts import commands as accounts
from florin_server.cli.addresses import commands as addresses
from florin_server.cli.audit import commands as audit
from florin_server.cli.chains import commands as chains
from florin_server.cli.exports import commands as exports
from florin_server.cli.options import (
    CommandGroup,
    GrpcPort,
    HomeOption,
    HttpPort,
    YesOption,
    build_overrides,
    with_wallet_connection,
)
from florin_server.cli.payments import commands as payments
from florin_server.cli.receipts import commands as receipts
from florin_server.cli.screening import commands as screening
from florin_server.cli.secret_options import read_urls
from florin_server.cli.server import ConnectionOptions
from florin_server.cli.service import commands as service_commands
from florin_server.cli.service.simulation_options import (
    SimulationAbandoners,
    SimulationAsJson,
    SimulationBegin,
    SimulationConfirmations,
    SimulationDays,
    SimulationJump,
    SimulationMerchants,
    SimulationOutageChain,
    SimulationOutageMinutes,
    SimulationPayments,
    SimulationReorgs,
    SimulationSeed,
    SimulationSlowChain,
    SimulationVolatility,
)
from florin_server.cli.store import commands as store
from florin_server.cli.wallet.options import (
    PayChains,
    PayData,
    PayKeystores,
    PayMaxFee,
    PayMaximum,
    PayOption,
    PayPasswordFile,
    PayRpcUrls,
    PaySend,
    PayX402,
)
from florin_server.cli.webhooks import commands as webhooks

# the completion scripts of the shells set it when they ask for suggestions
COMPLETION_VARIABLE = "_FLORIN_COMPLETE"

app = CommandGroup(
    name="florin",
    help="Self-hosted crypto payment gateway.",
    no_args_is_help=True,
    add_completion=False,
    # Rich markup would swallow "[default: …]"
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(is_requested: bool) -> None:
    if is_requested:
        import florin_server

        typer.echo(f"florin {florin_server.__version__}")
        raise typer.Exit


@app.callback()
def florin(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Self-hosted crypto payment gateway."""


@app.command()
def up(home: HomeOption = None, http_port: HttpPort = None, grpc_port: GrpcPort = None) -> None:
    """Run Florin in one process, with embedded test chains.

    Serves REST and gRPC, and settles payments. Creates test accounts on the first start.

    Example: `florin up --http-port 8080`
    """
    from florin_server.cli.service import up as command

    command.run_up(build_overrides(home=home, http_port=http_port, grpc_port=grpc_port))


@app.command()
def serve(
    home: HomeOption = None,
    http_port: HttpPort = None,
    grpc_port: GrpcPort = None,
    workers: Annotated[
        int,
        typer.Option(
            min=1, max=64, help="Number of processes that share the ports; several need PostgreSQL."
        ),
    ] = 1,
    no_settling: Annotated[
        bool,
        typer.Option(
            "--no-settling", help="Only answer calls; a `florin worker` elsewhere settles."
        ),
    ] = False,
) -> None:
    """Run the service for production, without test accounts.

    With several processes, Florin restarts one that dies. SIGHUP replaces them in turn, so that
    they read the settings and certificates again while the others answer.

    Example: `florin serve --workers 4`
    """
    from florin_server.app.role import FULL_ROLE, SERVER_ROLE

    overrides = build_overrides(home=home, http_port=http_port, grpc_port=grpc_port)
    role = SERVER_ROLE if no_settling else FULL_ROLE
    if workers > 1:
        from florin_server.cli.service import supervised

        supervised.run_supervised(overrides, role, workers)
    else:
        from florin_server.cli.service import serve as command

        command.run_service(overrides, role)


@app.command()
def worker(home: HomeOption = None) -> None:
    """Run settlement, payouts and clean-up only; answer no calls.

    Use it beside `florin serve --no-settling`.

    Example: `florin worker --home /var/lib/florin`
    """
    from florin_server.app.role import WORKER_ROLE
    from florin_server.cli.service import serve as command

    command.run_service(build_overrides(home=home), WORKER_ROLE)


@app.command()
def demo(
    home: HomeOption = None,
    http_port: HttpPort = None,
    grpc_port: GrpcPort = None,
    start: Annotated[
        bool, typer.Option("--up", help="Start Florin first and leave it running afterwards.")
    ] = False,
) -> None:
    """Make and pay one test payment through the REST API.

    Shows each call of the merchant and of the wallet, and the balances on the chain.

    Example: `florin demo --up`
    """
    from florin_server.cli.service.sandbox import require_sandbox

    overrides = build_overrides(home=home, http_port=http_port, grpc_port=grpc_port)
    require_sandbox("The demo failed").run_demo(overrides, starts=start)


@app.command()
@with_wallet_connection
def pay(
    link: Annotated[str, typer.Argument(help="Payment link (also for x402) or payment id.")],
    *,
    option: PayOption = None,
    send: PaySend = False,
    x402: PayX402 = False,
    data: PayData = None,
    keystore: PayKeystores = None,
    password_file: PayPasswordFile = None,
    chain: PayChains = None,
    rpc_url: PayRpcUrls = None,
    maximum: PayMaximum = None,
    max_fee: PayMaxFee = None,
    yes: YesOption = False,
    connection: ConnectionOptions,
) -> None:
    """Pay a payment link as a wallet, and show every step.

    Without --keystore, new keys pay test payments; the embedded chains fund them. Real money needs
    --keystore: the command shows what it is going to sign and asks. It signs only what matches the
    terms of the option. With --send and --x402 it pays only to an address that follows from the
    payment.

    Example: `florin pay pay_1a2b --option 1`
    """
    from florin_server.cli.wallet import pay as command
    from florin_server.cli.wallet.execution import PayOptions
    from florin_server.cli.wallet.keys import WalletFiles

    options = PayOptions(
        link,
        option,
        data,
        WalletFiles(tuple(keystore or ()), password_file),
        tuple(chain or ()),
        read_urls(rpc_url or (), "--rpc-url", "FLORIN_WALLET_RPC_URL"),
        yes,
        maximum,
        max_fee,
        sends=send,
        x402=x402,
    )
    command.pay_link(connection, options)


# Jupyter owns the output of this command
@app.command(without_json=True)
def lab(  # noqa: PLR0917  (typer gives them by name)
    folder: Annotated[
        Path | None,
        typer.Argument(
            help="Folder to open; notebooks that are missing there are copied into it."
            "  [default: notebooks of the checkout, else florin-notebooks]"
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
            help="Port of Jupyter; 0 picks a free one.  [default: 8888 or the next free one]",
        ),
    ] = None,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Only print the address of Jupyter.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Install missing packages without asking.")
    ] = False,
) -> None:
    """Open the notebooks in Jupyter, with a running sandbox.

    Uses the Florin that runs on the state folder, or starts one. Set FLORIN_TARGET to use a Florin
    elsewhere.

    Example: `florin lab my-notebooks`
    """
    from florin_server.cli.service.sandbox import require_sandbox

    overrides = build_overrides(home=home, http_port=http_port, grpc_port=grpc_port)
    require_sandbox("The lab failed").run_lab(
        overrides, folder, port, opens_browser=not no_browser, yes=yes
    )


@app.command()
def simulate(  # noqa: PLR0917  (typer gives them by name)
    home: HomeOption = None,
    seed: SimulationSeed = None,
    payments: SimulationPayments = None,
    days: SimulationDays = None,
    begin: SimulationBegin = None,
    merchants: SimulationMerchants = None,
    abandoners: SimulationAbandoners = None,
    reorgs: SimulationReorgs = None,
    slow_chain: SimulationSlowChain = None,
    outage_chain: SimulationOutageChain = None,
    outage_minutes: SimulationOutageMinutes = None,
    confirmations: SimulationConfirmations = None,
    volatility: SimulationVolatility = None,
    jump: SimulationJump = None,
    as_json: SimulationAsJson = False,
) -> None:
    """Simulate days of payments on a stopped sandbox.

    Florin must not run on the state folder. At the end the command checks payments, chains and
    ledger.

    Example: `florin simulate --payments 200 --days 2`
    """
    from florin_server.cli.service.sandbox import require_sandbox

    chosen = build_overrides(
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
    require_sandbox("Not simulated").run_simulation(
        build_overrides(home=home), chosen, begin=begin, as_json=as_json
    )


@app.command()
def doctor(home: HomeOption = None) -> None:
    """Check state, store, ledger, chains and tokens.

    Prints a line per check, and ends with 1 if one fails.

    Example: `florin doctor --home /var/lib/florin`
    """
    from florin_server.cli.service import doctor as command

    command.run_doctor(build_overrides(home=home))


@app.command()
def migrate(
    home: HomeOption = None,
    status: Annotated[
        bool,
        typer.Option("--status", help="Only show the schema; ends with 1 if it does not match."),
    ] = False,
    sql: Annotated[bool, typer.Option("--sql", help="Only print the SQL statements.")] = False,
) -> None:
    """Upgrade the store to the schema of this Florin.

    Each start does this too. A store that a newer Florin wrote is refused and stays unchanged.

    Example: `florin migrate --status`
    """
    from florin_server.cli.store import migrate as command

    command.migrate_store(build_overrides(home=home), status=status, sql=sql)


@app.command()
def gateway(  # noqa: PLR0917  (typer gives them by name)
    upstream: Annotated[str, typer.Option(help="gRPC address of the service, host:port.")],
    host: Annotated[
        str | None, typer.Option(help="Address to listen on.  [default: 127.0.0.1]")
    ] = None,
    http_port: HttpPort = None,
    home: HomeOption = None,
    tls: Annotated[
        bool, typer.Option("--tls", help="Connect over TLS; a TLS option below implies it.")
    ] = False,
    ca: Annotated[
        Path | None, typer.Option(help="CA certificates, a PEM file.  [default: the system's]")
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option(help="Client certificate, a PEM file.")
    ] = None,
    key: Annotated[
        Path | None, typer.Option(help="Key of the client certificate, a PEM file.")
    ] = None,
    server_name: Annotated[
        str | None,
        typer.Option(help="Name in the certificate of the service.  [default: the host]"),
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Allow plain text to another machine.")
    ] = False,
) -> None:
    """Run only the REST gateway, in front of a Florin elsewhere.

    A service on another machine needs TLS, or --insecure. Set the same FLORIN_GATEWAY_TOKEN on both
    sides, unless they share the state folder: the service then trusts the caller addresses that the
    gateway reports, and can limit by address.

    Example: `florin gateway --upstream florin.internal:50051 --tls`
    """
    from florin_server.app.servers.upstream import UpstreamConnection
    from florin_server.cli.service import gateway as command

    link = UpstreamConnection(tls, ca, certificate, key, server_name, insecure)
    command.run_gateway(upstream, link, build_overrides(home=home, host=host, http_port=http_port))


@app.command()
def export(  # noqa: PLR0917  (typer gives them by name)
    to: Annotated[
        Path, typer.Option(help="Folder to write to; a later run adds new and changed rows.")
    ],
    format_: Annotated[str, typer.Option("--format", help="csv, jsonl or parquet.")] = "csv",
    table: Annotated[
        list[str] | None, typer.Option(help="Table to export; repeatable.  [default: all]")
    ] = None,
    since: Annotated[
        Path | None,
        typer.Option(help="export.json of an earlier export: only write newer rows."),
    ] = None,
    personal: Annotated[
        bool, typer.Option("--personal", help="Include personal data, such as buyer data.")
    ] = False,
    server: Annotated[
        str | None,
        typer.Option(
            help="gRPC address of a Florin, host:port, to read from with a merchant's key.  "
            "[default: read the store]"
        ),
    ] = None,
    tls: Annotated[bool, typer.Option("--tls", help="Connect over TLS; --ca implies it.")] = False,
    ca: Annotated[
        Path | None, typer.Option(help="CA certificates, a PEM file.  [default: the system's]")
    ] = None,
    home: HomeOption = None,
) -> None:
    """Export payments, the ledger and related data as tables.

    Florin can run meanwhile. With --server the export contains only the payments and refunds of
    the merchant.

    Example: `florin export --to export --format parquet`
    """
    from florin_server.cli.exports import export as command

    options = command.ExportOptions(to, format_, table or (), since, personal)
    if server is None:
        command.export_store(build_overrides(home=home), options)
    else:
        command.export_from_server(server, options, tls=tls, ca=ca)


app.command()(exports.report)
app.command("listen")(webhooks.listen)
app.command("trigger")(webhooks.trigger)
app.command()(receipts.verify_receipt)


@app.command(without_json=True)
def completion(
    shell: Annotated[str, typer.Argument(help="bash, zsh or fish.")],
) -> None:
    """Print the completion script for a shell.

    Save the output where the shell looks for completions.

    Example: `florin completion bash`
    """
    from florin_server.cli.service import completion as command

    command.print_script(shell, COMPLETION_VARIABLE)


for _module in (
    accounts,
    addresses,
    audit,
    chains,
    payments,
    receipts,
    screening,
    service_commands,
    store,
    webhooks,
):
    for _name, _group in _module.GROUPS.items():
        app.add_typer(_group, name=_name)
