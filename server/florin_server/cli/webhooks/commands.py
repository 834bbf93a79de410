"""The commands that are about webhooks, and their options."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from florin_server.cli.options import TIMES, HomeOption, LiveOption, asking, given, group
from florin_server.cli.server import At

webhooks = group("Tell merchants' back ends of changes: make, list, pause and replay endpoints.")

GROUPS = {"webhooks": webhooks}

EndpointId = Annotated[str, typer.Argument(help="The id that `florin webhooks list` shows.")]


@webhooks.command("create")
def create(  # noqa: PLR0917  (typer gives them by name)
    url: Annotated[str, typer.Argument(help="Where it is, an absolute https URL.")],
    partner: Annotated[str, typer.Option(help="Partner id.")],
    merchant: Annotated[
        str, typer.Option(help="Only payments of this merchant.  [default: all of the partner]")
    ] = "",
    event: Annotated[
        list[str] | None,
        typer.Option(help="A type of events, repeatable; * for all.  [default: all of payments]"),
    ] = None,
    live: LiveOption = False,
    home: HomeOption = None,
) -> None:
    """Make an endpoint and show its secret, once."""
    from florin_server.cli.webhooks import endpoints as command

    wanted = command.Wanted(url, partner, merchant, event or ())
    command.create(given(home=home), wanted, live=live)


@webhooks.command("list")
def list_(
    paused: Annotated[bool, typer.Option("--paused", help="Only those that are paused.")] = False,
    home: HomeOption = None,
) -> None:
    """List endpoints of all partners, and how they do."""
    from florin_server.cli.webhooks import endpoints as command

    command.show(given(home=home), paused=paused)


@webhooks.command("pause")
def pause(endpoint_id: EndpointId, home: HomeOption = None) -> None:
    """Tell an endpoint nothing; what it misses waits for it."""
    from florin_server.cli.webhooks import endpoints as command

    command.pause(given(home=home), endpoint_id, paused=True)


@webhooks.command("resume")
def resume(endpoint_id: EndpointId, home: HomeOption = None) -> None:
    """Tell an endpoint everything that waits for it, from now on."""
    from florin_server.cli.webhooks import endpoints as command

    command.pause(given(home=home), endpoint_id, paused=False)


@webhooks.command("delete")
def delete(endpoint_id: EndpointId, home: HomeOption = None) -> None:
    """Delete an endpoint, and all that waits for it."""
    from florin_server.cli.webhooks import endpoints as command

    command.delete(given(home=home), endpoint_id)


@webhooks.command("rotate")
def rotate(
    endpoint_id: EndpointId,
    overlap: Annotated[
        int | None,
        typer.Option(help="Seconds that the old secrets sign too.  [default: 86400]"),
    ] = None,
    home: HomeOption = None,
) -> None:
    """Give an endpoint a new secret and show it, once."""
    from florin_server.cli.webhooks import endpoints as command

    command.rotate(given(home=home), endpoint_id, overlap)


@webhooks.command("attempts")
def attempts(
    endpoint_id: EndpointId,
    payment: Annotated[str, typer.Option(help="Only about this payment.")] = "",
    home: HomeOption = None,
) -> None:
    """List the last attempts to tell an endpoint of something, newest first."""
    from florin_server.cli.webhooks import endpoints as command

    command.attempts(given(home=home), endpoint_id, payment)


@webhooks.command("replay")
def replay(  # noqa: PLR0917  (typer gives them by name)
    endpoint_id: EndpointId,
    payment: Annotated[
        str, typer.Argument(help="Payment id.  [default: all since a time]", show_default=False)
    ] = "",
    version: Annotated[int, typer.Option("--from", min=0, help="From this version on.")] = 0,
    since: Annotated[
        datetime | None,
        typer.Option("--since", formats=TIMES, help="Events of all payments, from then on (UTC)."),
    ] = None,
    event: Annotated[
        list[str] | None,
        typer.Option(help="Since then, one type of events, and again for more.  [default: all]"),
    ] = None,
    home: HomeOption = None,
) -> None:
    """Tell an endpoint the changes of a payment again, or all events since a time."""
    from florin_server.cli.webhooks import replays as command

    command.run(given(home=home), endpoint_id, command.Wanted(payment, version, since, event or ()))


@asking
def listen(
    forward_to: Annotated[
        str, typer.Option("--forward-to", help="Where to, such as http://localhost:3000/webhooks.")
    ],
    *,
    event: Annotated[
        list[str] | None,
        typer.Option(help="A type of events, repeatable.  [default: all]"),
    ] = None,
    at: At,
) -> None:
    """Hand webhooks on to a server on this machine, signed with a secret that is shown."""
    from florin_server.cli.webhooks import listen as command

    command.run(at, forward_to, event or ["*"])


@asking
def trigger(
    outcome: Annotated[
        str,
        typer.Argument(
            help="created, processing, succeeded, failed, expired, cancelled or refunded."
        ),
    ],
    *,
    at: At,
) -> None:
    """Make a test payment, and bring it to an outcome."""
    from florin_server.cli.webhooks import trigger as command

    command.run(at, outcome)
