"""Options that many commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

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


def given(**values: Any) -> dict[str, Any]:
    """The options that were given; the rest comes from the environment, the file, the defaults."""
    return {name: value for name, value in values.items() if value is not None}


def group(summary: str) -> typer.Typer:
    """An empty group of commands."""
    return typer.Typer(help=summary, no_args_is_help=True)
