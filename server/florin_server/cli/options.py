"""Options that several commands share, and the classes of command groups."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from florin_server.cli.console import use_json
from florin_server.cli.help import ReadableCommand, ReadableGroup
from florin_server.cli.secret_options import read_secret
from florin_server.cli.server import PARTNER_KEY_VARIABLE, ConnectionOptions

# the URL of a node often holds a key
RPC_URL_VARIABLE = "FLORIN_RPC_URL"
# accepted formats of times, in UTC
TIME_FORMATS = ["%Y-%m-%d", "%Y-%m-%dT%H:%M:%SZ"]
HomeOption = Annotated[
    Path | None, typer.Option("--home", help="State folder.  [default: $FLORIN_HOME or .florin]")
]
HttpPort = Annotated[
    int | None, typer.Option("--http-port", help="REST port; 0 picks a free one.  [default: 8080]")
]
GrpcPort = Annotated[
    int | None,
    typer.Option("--grpc-port", help="gRPC port; 0 picks a free one.  [default: 50051]"),
]
LiveOption = Annotated[bool, typer.Option("--live", help="Use live data instead of test data.")]
IconOption = Annotated[str | None, typer.Option("--icon-url", help="Icon: an absolute https URL.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print results and errors as JSON.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]

ServerOption = Annotated[
    str | None,
    typer.Option(
        "--server",
        help="gRPC address of Florin, host:port.  "
        "[default: $FLORIN_GRPC_TARGET, or the Florin that uses the state folder]",
    ),
]
TlsOption = Annotated[bool, typer.Option("--tls", help="Connect over TLS; --ca implies it.")]
CaOption = Annotated[
    Path | None,
    typer.Option("--ca", help="CA certificates, a PEM file.  [default: the system's]"),
]
ApiKeyOption = Annotated[
    str | None,
    typer.Option(
        "--api-key",
        metavar="@FILE",
        help="File with the partner's API key, or - for stdin.  "
        "[default: $FLORIN_PARTNER_KEY, or the test partner's]",
    ),
]
MerchantOption = Annotated[
    str | None,
    typer.Option(
        "--merchant", help="Merchant id.  [default: $FLORIN_MERCHANT_ID, or the test merchant's]"
    ),
]

_Command = TypeVar("_Command", bound=Callable[..., None])


class CommandGroup(typer.Typer):
    """A group of commands. Each has --json, except those added with `plain`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(cls=ReadableGroup, **options)

    def command(
        self, name: str | None = None, *, without_json: bool = False, **options: Any
    ) -> Callable[[_Command], _Command]:
        """Return a decorator that adds a command; with `without_json` it gets no --json."""
        add = super().command(name, cls=ReadableCommand, **options)

        def added(work: _Command) -> _Command:
            add(work if without_json else _with_json(work))
            return work

        return added


def create_group(summary: str) -> CommandGroup:
    """Create an empty group of commands."""
    return CommandGroup(help=summary, no_args_is_help=True)


def build_overrides(**values: Any) -> dict[str, Any]:
    """Return the options that are set; the settings read the rest from environment and file."""
    return {name: value for name, value in values.items() if value is not None}


def with_merchant_connection(work: Callable[..., None]) -> Callable[..., None]:
    """Add the options of a merchant's connection; the command gets them as its argument `at`."""
    return _with_connection(work, {"api_key": ApiKeyOption, "merchant": MerchantOption})


def with_wallet_connection(work: Callable[..., None]) -> Callable[..., None]:
    """Add the options of a wallet's connection; the command gets them as its argument `at`."""
    return _with_connection(work, {})


def _with_connection(
    work: Callable[..., None], credentials: Mapping[str, Any]
) -> Callable[..., None]:
    options: dict[str, tuple[Any, Any]] = {
        "server": (ServerOption, None),
        "tls": (TlsOption, False),
        "ca": (CaOption, None),
        **{name: (option, None) for name, option in credentials.items()},
        "home": (HomeOption, None),
    }

    def run(values: dict[str, Any]) -> None:
        chosen = {name: values.pop(name) for name in options}
        if chosen.get("api_key") is not None:
            chosen["api_key"] = read_secret(chosen["api_key"], "--api-key", PARTNER_KEY_VARIABLE)
        work(connection=ConnectionOptions(**chosen), **values)

    return _extend_signature(work, options, run, removed="connection")


def _with_json(work: Callable[..., None]) -> Callable[..., None]:
    if "as_json" in inspect.signature(work).parameters:
        # the command declares --json itself, because it prints lines of JSON
        def own(values: dict[str, Any]) -> None:
            use_json(as_json=values["as_json"])
            work(**values)

        return _extend_signature(work, {}, own)

    def run(values: dict[str, Any]) -> None:
        use_json(as_json=values.pop("as_json"))
        work(**values)

    return _extend_signature(work, {"as_json": (JsonOption, False)}, run)


def _extend_signature(
    work: Callable[..., None],
    options: Mapping[str, tuple[Any, Any]],
    run: Callable[[dict[str, Any]], None],
    *,
    removed: str = "",
) -> Callable[..., None]:
    """Return a command with more options; `run` gets the values of all of them by name.

    Each option is an annotation and a default. Typer reads the signature and the annotations.
    """

    @wraps(work)
    def extended(**values: Any) -> None:
        run(values)

    signature = inspect.signature(work, eval_str=True)
    parameters = [
        parameter for parameter in signature.parameters.values() if parameter.name != removed
    ]
    # parameters without a default have to come first
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in options.items()
    ]
    kinds = {name: kind for name, (kind, _) in options.items()}
    by_name = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    extended.__signature__ = signature.replace(parameters=[*by_name, *added])  # type: ignore[attr-defined]
    own_annotations = {parameter.name: parameter.annotation for parameter in parameters}
    extended.__annotations__ = {**own_annotations, **kinds}
    return extended
