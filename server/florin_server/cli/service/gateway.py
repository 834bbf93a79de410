"""`florin gateway`: run only the REST gateway, in front of a service elsewhere."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

from florin_server.app import traces
from florin_server.app.home import SetupError, find_gateway_token
from florin_server.app.servers import gateway, metrics, observing
from florin_server.app.servers.addresses import check_bind
from florin_server.app.servers.certificates import CertificateStore
from florin_server.app.servers.observing import RequestObservers
from florin_server.app.servers.peers import find_token, get_proxies
from florin_server.app.servers.upstream import UpstreamConnection
from florin_server.base.meters import Meters
from florin_server.cli.console import (
    console,
    fail,
    print_hint,
    print_json_line,
)
from florin_server.cli.service.signals import run_until_signalled, set_hangup_handler
from florin_server.cli.settings import get_settings, log_to_stderr
from florin_server.settings import Settings


def run_gateway(upstream: str, connection: UpstreamConnection, overrides: dict[str, Any]) -> None:
    """Run until Ctrl-C or SIGTERM."""
    settings = get_settings(overrides)
    log_to_stderr(settings)
    run_until_signalled(_run_until_stopped(upstream, connection, settings))


async def _run_until_stopped(
    upstream: str, connection: UpstreamConnection, settings: Settings
) -> None:
    async with AsyncExitStack() as stack:
        try:
            check_bind(settings)
            certificates = CertificateStore.from_settings(settings)
            token = find_token(settings) or find_gateway_token(settings.home)
            listener = gateway.bind_socket(settings.host, settings.http_port)
            meters, metrics_url = Meters(), ""
            if settings.metrics_port is not None:
                metrics_url = await metrics.start_meters(meters, settings.metrics_port, stack)
            seen = RequestObservers(
                meters if metrics_url else None,
                traces.start_tracer(settings, stack),
                settings.tracing.trusted_callers,
            )
            url = await gateway.start_remote_gateway(
                upstream,
                listener,
                stack,
                gateway.build_server_settings(settings, certificates),
                connection=replace(connection, token=token or ""),
                proxies=get_proxies(settings),
                observe=observing.build_rest_observer(seen, propagates=True),
            )
        except (SetupError, OSError) as error:
            fail("The gateway does not start", error)
        if certificates is not None:
            certificates.start_following(stack)
            set_hangup_handler(certificates.reload_if_changed)
        if not token:
            print_hint(
                "FLORIN_GATEWAY_TOKEN is not set: the service counts all callers here as one "
                "address."
            )
        print_json_line({"http": url, "grpc": upstream, "metrics": metrics_url or None})
        console.print("[bold green]The gateway is up.[/]", markup=True)
        console.print(f"REST  {url}\ngRPC  {upstream}")
        if metrics_url:
            console.print(f"Metrics  {metrics_url}")
        console.print("\nCtrl-C ends it.")
        await asyncio.Event().wait()
