"""Options that many commands have, and the groups that commands are in."""

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
from florin_server.cli.server import KEY, At

# the URL of a node often holds a key
RPC_URL = "FLORIN_RPC_URL"
# how options name a time, in UTC
TIMES = ["%Y-%m-%d", "%Y-%m-%dT%H:%M:%SZ"]
HomeOption = Annotated[
    Path | None, typer.Option("--home", help="State folder.  [default: $FLORIN_HOME or .florin]")
]
HttpPort = Annotated[
    int | None, typer.Option("--http-port", help="REST port, 0 = any.  [default: 8080]")
]
GrpcPort = Annotated[
    int | None, typer.Option("--grpc-port", help="gRPC port, 0 = any.  [default: 50051]")
]
LiveOption = Annotated[bool, typer.Option("--live", help="For live data, not test data.")]
IconOption = Annotated[str | None, typer.Option("--icon-url", help="Icon, an absolute https URL.")]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Tell results, and what goes wrong, as JSON.")
]
YesOption = Annotated[bool, typer.Option("--yes", help="Ask nothing.")]

ServerOption = Annotated[
    str | None,
    typer.Option(
        "--server",
        help="gRPC address, host:port.  "
        "[default: $FLORIN_GRPC_TARGET or the Florin of the state folder]",
    ),
]
TlsOption = Annotated[bool, typer.Option("--tls", help="Reach the server over TLS, as --ca does.")]
CaOption = Annotated[
    Path | None,
    typer.Option("--ca", help="PEM file of who vouches for it.  [default: the system's]"),
]
ApiKeyOption = Annotated[
    str | None,
    typer.Option(
        "--api-key",
        metavar="@FILE",
        help="File with a partner's key, or - for stdin.  "
        "[default: $FLORIN_PARTNER_KEY or the test partner's]",
    ),
]
MerchantOption = Annotated[
    str | None,
    typer.Option(
        "--merchant", help="Merchant id.  [default: $FLORIN_MERCHANT_ID or the test merchant's]"
    ),
]

_Work = TypeVar("_Work", bound=Callable[..., None])


class Group(typer.Typer):
    """A group of commands, all of which have --json but for those that say `plain`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(cls=ReadableGroup, **options)

    def command(
        self, name: str | None = None, *, plain: bool = False, **options: Any
    ) -> Callable[[_Work], _Work]:
        """Adds a command."""
        add = super().command(name, cls=ReadableCommand, **options)

        def added(work: _Work) -> _Work:
            add(work if plain else _with_json(work))
            return work

        return added


def group(summary: str) -> Group:
    """An empty group of commands."""
    return Group(help=summary, no_args_is_help=True)


def given(**values: Any) -> dict[str, Any]:
    """The options that were given; the rest comes from the environment, the file, the defaults."""
    return {name: value for name, value in values.items() if value is not None}


def asking(work: Callable[..., None]) -> Callable[..., None]:
    """A command that asks a server, as its argument `at` says; it gets the options for that."""
    return _at(work, {"api_key": ApiKeyOption, "merchant": MerchantOption})


def paying(work: Callable[..., None]) -> Callable[..., None]:
    """The same for a command that asks as a wallet."""
    return _at(work, {})


def _at(work: Callable[..., None], credentials: Mapping[str, Any]) -> Callable[..., None]:
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
            chosen["api_key"] = read_secret(chosen["api_key"], "--api-key", KEY)
        work(at=At(**chosen), **values)

    return _extended(work, options, run, without="at")


def _with_json(work: Callable[..., None]) -> Callable[..., None]:
    if "as_json" in inspect.signature(work).parameters:
        # it has lines of JSON of its own
        def own(values: dict[str, Any]) -> None:
            use_json(as_json=values["as_json"])
            work(**values)

        return _extended(work, {}, own)

    def run(values: dict[str, Any]) -> None:
        use_json(as_json=values.pop("as_json"))
        work(**values)

    return _extended(work, {"as_json": (JsonOption, False)}, run)


def _extended(
    work: Callable[..., None],
    options: Mapping[str, tuple[Any, Any]],
    run: Callable[[dict[str, Any]], None],
    *,
    without: str = "",
) -> Callable[..., None]:
    """A command with more options, each with its default, which `run` gets all values of.

    Typer reads parameters off a signature and their annotations.
    """

    @wraps(work)
    def extended(**values: Any) -> None:
        run(values)

    signature = inspect.signature(work, eval_str=True)
    kept = [one for one in signature.parameters.values() if one.name != without]
    # what has no default comes first, as in any signature
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in options.items()
    ]
    kinds = {name: kind for name, (kind, _) in options.items()}
    by_name = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in kept]
    extended.__signature__ = signature.replace(parameters=[*by_name, *added])  # type: ignore[attr-defined]
    said = {one.name: one.annotation for one in kept}
    extended.__annotations__ = {**said, **kinds}
    return extended
