"""Define the commands for webhooks, and their options."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from florin_server.cli.options import (
    TIME_FORMATS,
    HomeOption,
    LiveOption,
    build_overrides,
    create_group,
    with_merchant_connection,
)
from florin_server.cli.server import ConnectionOptions

webhooks = create_group("Create, pause and replay webhook endpoints.")

GROUPS = {"webhooks": webhooks}

EndpointId = Annotated[str, typer.Argument(help="Endpoint id, from `florin webhooks list`.")]


@webhooks.command("create")
def create(  # noqa: PLR0917  (typer gives them by name)
    url: Annotated[str, typer.Argument(help="Absolute https URL of the endpoint.")],
    partner: Annotated[str, typer.Option(help="Partner id.")],
    merchant: Annotated[
        str, typer.Option(help="Only this merchant's payments.  [default: all merchants]")
    ] = "",
    event: Annotated[
        list[str] | None,
        typer.Option(help="Event type, * for all; repeatable.  [default: all payment events]"),
    ] = None,
    live: LiveOption = False,
    home: HomeOption = None,
) -> None:
    """Create an endpoint and show its secret once.

    Example: `florin webhooks create https://shop.example --partner prtn_1a2b`
    """
    from florin_server.cli.webhooks import endpoints as command

    options = command.EndpointOptions(url, partner, merchant, event or ())
    command.create_endpoint(build_overrides(home=home), options, live=live)


@webhooks.command("list")
def list_(
    paused: Annotated[bool, typer.Option("--paused", help="Only paused endpoints.")] = False,
    home: HomeOption = None,
) -> None:
    """List the endpoints of all partners, with their failures.

    Example: `florin webhooks list --paused`
    """
    from florin_server.cli.webhooks import endpoints as command

    command.list_endpoints(build_overrides(home=home), is_paused=paused)


@webhooks.command("pause")
def pause(endpoint_id: EndpointId, home: HomeOption = None) -> None:
    """Pause an endpoint; its deliveries are queued.

    Example: `florin webhooks pause whe_1a2b`
    """
    from florin_server.cli.webhooks import endpoints as command

    command.set_paused(build_overrides(home=home), endpoint_id, is_paused=True)


@webhooks.command("resume")
def resume(endpoint_id: EndpointId, home: HomeOption = None) -> None:
    """Resume an endpoint and send its queued deliveries.

    Example: `florin webhooks resume whe_1a2b`
    """
    from florin_server.cli.webhooks import endpoints as command

    command.set_paused(build_overrides(home=home), endpoint_id, is_paused=False)


@webhooks.command("delete")
def delete(endpoint_id: EndpointId, home: HomeOption = None) -> None:
    """Delete an endpoint and its queued deliveries.

    Example: `florin webhooks delete whe_1a2b`
    """
    from florin_server.cli.webhooks import endpoints as command

    command.delete_endpoint(build_overrides(home=home), endpoint_id)


@webhooks.command("rotate")
def rotate(
    endpoint_id: EndpointId,
    overlap: Annotated[
        int | None,
        typer.Option(help="Seconds that the old secrets stay valid.  [default: 86400]"),
    ] = None,
    home: HomeOption = None,
) -> None:
    """Create a new secret for an endpoint and show it once.

    Example: `florin webhooks rotate whe_1a2b --overlap 3600`
    """
    from florin_server.cli.webhooks import endpoints as command

    command.rotate_secret(build_overrides(home=home), endpoint_id, overlap)


@webhooks.command("attempts")
def attempts(
    endpoint_id: EndpointId,
    payment: Annotated[str, typer.Option(help="Only attempts for this payment.")] = "",
    home: HomeOption = None,
) -> None:
    """List the latest delivery attempts, newest first.

    Example: `florin webhooks attempts whe_1a2b --payment pay_1a2b`
    """
    from florin_server.cli.webhooks import endpoints as command

    command.list_attempts(build_overrides(home=home), endpoint_id, payment)


@webhooks.command("replay")
def replay(  # noqa: PLR0917  (typer gives them by name)
    endpoint_id: EndpointId,
    payment: Annotated[
        str, typer.Argument(help="Payment id.  [default: all, with --since]", show_default=False)
    ] = "",
    version: Annotated[int, typer.Option("--from", min=0, help="First version to send again.")] = 0,
    since: Annotated[
        datetime | None,
        typer.Option(
            "--since", formats=TIME_FORMATS, help="Send events of all payments since then (UTC)."
        ),
    ] = None,
    event: Annotated[
        list[str] | None,
        typer.Option(help="With --since: event type; repeatable.  [default: all]"),
    ] = None,
    home: HomeOption = None,
) -> None:
    """Send the events of a payment, or since a time, again.

    Example: `florin webhooks replay whe_1a2b --since 2026-05-01`
    """
    from florin_server.cli.webhooks import replays as command

    command.replay_events(
        build_overrides(home=home),
        endpoint_id,
        command.ReplayOptions(payment, version, since, event or ()),
    )


@with_merchant_connection
def listen(
    forward_to: Annotated[
        str, typer.Option("--forward-to", help="Local URL, such as http://localhost:3000/webhooks.")
    ],
    *,
    event: Annotated[
        list[str] | None,
        typer.Option(help="Event type; repeatable.  [default: all]"),
    ] = None,
    connection: ConnectionOptions,
) -> None:
    """Forward webhooks to a server on this machine.

    Shows the secret that signs them. Runs until Ctrl-C.

    Example: `florin listen --forward-to http://localhost:3000/webhooks`
    """
    from florin_server.cli.webhooks import listen as command

    command.run_listener(connection, forward_to, event or ["*"])


@with_merchant_connection
def trigger(
    outcome: Annotated[
        str,
        typer.Argument(
            help="created, processing, succeeded, failed, expired, cancelled or refunded."
        ),
    ],
    *,
    connection: ConnectionOptions,
) -> None:
    """Create a test payment with a chosen outcome.

    Example: `florin trigger succeeded`
    """
    from florin_server.cli.webhooks import trigger as command

    command.trigger_outcome(connection, outcome)
