"""The commands and their options; each command's work is a module of its own, imported when used.

Importing everything would cost a second before `--help` could answer.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from florin_server.boot import memory

app = typer.Typer(
    name="florin",
    help="Self-hosted crypto payment gateway.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

HomeOption = Annotated[
    Path | None, typer.Option("--home", help="State folder.  [default: $FLORIN_HOME or .florin]")
]
HttpPort = Annotated[
    int | None, typer.Option("--http-port", help="REST port, 0 = any.  [default: 8080]")
]
GrpcPort = Annotated[
    int | None, typer.Option("--grpc-port", help="gRPC port, 0 = any.  [default: 50051]")
]


def _given(**values: Any) -> dict[str, Any]:
    """The options that were given; the rest comes from the environment, the file, the defaults."""
    return {name: value for name, value in values.items() if value is not None}


@app.command()
def up(home: HomeOption = None, http_port: HttpPort = None, grpc_port: GrpcPort = None) -> None:
    """Run everything in one process: REST, gRPC, settlement, an embedded test chain."""
    memory.before_start()
    from florin_server.cli import up as command

    command.run(_given(home=home, http_port=http_port, grpc_port=grpc_port))


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
    from florin_server.cli import demo as command

    given = _given(home=home, http_port=http_port, grpc_port=grpc_port)
    # the demo is welcome to a service that is already there
    if start and not command.has_service(given):
        from florin_server.cli import up as service

        service.run(given, first=command.pay)
    else:
        command.run(given)


@app.command()
def doctor(home: HomeOption = None) -> None:
    """Check state, store, ledger, chains and tokens, and say what is wrong with each."""
    from florin_server.cli import doctor as command

    command.run(_given(home=home))


@app.command()
def gateway(
    upstream: Annotated[str, typer.Option(help="gRPC address of the service, host:port.")],
    host: Annotated[
        str | None, typer.Option(help="Address to listen on.  [default: 127.0.0.1]")
    ] = None,
    http_port: HttpPort = None,
) -> None:
    """Run the REST gateway alone, in front of a Florin elsewhere."""
    from florin_server.cli import gateway as command

    command.run(upstream, _given(host=host, http_port=http_port))


keys_app = typer.Typer(help="Make, list and revoke API keys.", no_args_is_help=True)
app.add_typer(keys_app, name="keys")


@keys_app.command("create")
def keys_create(
    kind: Annotated[str, typer.Argument(help="partner or wallet")],
    partner: Annotated[str, typer.Option(help="Partner id, for a partner key.")] = "",
    live: Annotated[bool, typer.Option("--live", help="For live data, not test data.")] = False,
    home: HomeOption = None,
) -> None:
    """Make a key and show its secret, once."""
    from florin_server.cli import keys as command

    command.create(_given(home=home), kind, partner, live=live)


@keys_app.command("list")
def keys_list(
    partner: Annotated[str, typer.Option(help="Only this partner's keys.")] = "",
    home: HomeOption = None,
) -> None:
    """List keys without their secrets."""
    from florin_server.cli import keys as command

    command.show(_given(home=home), partner)


@keys_app.command("revoke")
def keys_revoke(
    key_id: Annotated[str, typer.Argument(help="The id that `florin keys list` shows.")],
    home: HomeOption = None,
) -> None:
    """Revoke a key for good."""
    from florin_server.cli import keys as command

    command.revoke(_given(home=home), key_id)
