"""`florin gateway`: the REST gateway alone, in front of a service elsewhere."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

from florin_server.boot import traces
from florin_server.boot.home import Refused, gateway_token
from florin_server.boot.servers import gateway, metrics, observing
from florin_server.boot.servers.addresses import check_bind
from florin_server.boot.servers.certificates import Certificates
from florin_server.boot.servers.observing import Seen
from florin_server.boot.servers.peers import chosen_token, proxies_of
from florin_server.boot.servers.upstream import Link
from florin_server.cli.console import console, fail, note, told_line
from florin_server.cli.service.signals import on_hangup, run_until_signalled
from florin_server.cli.settings import log_to_stderr, settings_of
from florin_server.config import Settings
from florin_server.meters import Meters


def run(upstream: str, link: Link, given: dict[str, Any]) -> None:
    """Runs until Ctrl-C or SIGTERM."""
    settings = settings_of(given)
    log_to_stderr(settings)
    run_until_signalled(_run(upstream, link, settings))


async def _run(upstream: str, link: Link, settings: Settings) -> None:
    async with AsyncExitStack() as stack:
        try:
            check_bind(settings)
            certificates = Certificates.of(settings)
            token = chosen_token(settings) or gateway_token(settings.home)
            listener = gateway.bind(settings.host, settings.http_port)
            meters, metrics_url = Meters(), ""
            if settings.metrics_port is not None:
                metrics_url = await metrics.start_counted(meters, settings.metrics_port, stack)
            seen = Seen(
                meters if metrics_url else None,
                traces.start(settings, stack),
                settings.tracing.trusted_callers,
            )
            url = await gateway.start_remote(
                upstream,
                listener,
                stack,
                gateway.server_settings(settings, certificates),
                link=replace(link, token=token or ""),
                proxies=proxies_of(settings),
                observe=observing.of_rest(seen, tells=True),
            )
        except (Refused, OSError) as error:
            fail("The gateway does not start", error)
        if certificates is not None:
            certificates.follow(stack)
            on_hangup(certificates.look)
        if not token:
            note("No FLORIN_GATEWAY_TOKEN: for the service all callers here are one address.")
        told_line({"http": url, "grpc": upstream, "metrics": metrics_url or None})
        console.print("[bold green]The gateway is up.[/]", markup=True)
        console.print(f"REST  {url}\ngRPC  {upstream}")
        if metrics_url:
            console.print(f"Metrics  {metrics_url}")
        console.print("\nCtrl-C ends it.")
        await asyncio.Event().wait()
