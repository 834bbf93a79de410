"""Options of `florin simulate`."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

SimulationSeed = Annotated[int | None, typer.Option(help="Same seed, same payments.  [default: 1]")]
SimulationPayments = Annotated[
    int | None, typer.Option(help="Number of payments.  [default: 1000]")
]
SimulationDays = Annotated[int | None, typer.Option(help="Number of days.  [default: 7]")]
SimulationBegin = Annotated[
    datetime | None,
    typer.Option(
        formats=["%Y-%m-%d"],
        help="First day (UTC); needs a new state folder.  [default: so that it ends now]",
    ),
]
SimulationMerchants = Annotated[int | None, typer.Option(help="Number of merchants.  [default: 5]")]
SimulationAbandoners = Annotated[
    float | None, typer.Option(help="Share of buyers who do not pay.  [default: 0.15]")
]
SimulationReorgs = Annotated[
    float | None,
    typer.Option(help="Share of EVM payments whose block is reorganized.  [default: 0.02]"),
]
SimulationSlowChain = Annotated[
    str | None, typer.Option(help="Chain that is slower than it promises: evm or solana.")
]
SimulationOutageChain = Annotated[
    str | None, typer.Option(help="Chain that stops once.  [default: evm]")
]
SimulationOutageMinutes = Annotated[
    int | None, typer.Option(help="Minutes that it stops.  [default: 0]")
]
SimulationConfirmations = Annotated[
    int | None,
    typer.Option(help="Confirmation depth on EVM, in blocks.  [default: from the settings]"),
]
SimulationVolatility = Annotated[
    float | None, typer.Option(help="Daily price change of a coin, in percent.  [default: 0]")
]
SimulationJump = Annotated[
    float | None, typer.Option(help="One sudden price change, in percent.  [default: 0]")
]
SimulationAsJson = Annotated[
    bool, typer.Option("--json", help="Print progress and result as lines of JSON.")
]
