"""`florin listen`: forward webhooks to a server that the internet cannot reach.

Takes queued deliveries from a Florin anywhere, signs them with its own secret, and sends them to a
local server. Reports the server's answers to Florin as delivery results.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

import aiohttp
from florin.v1.webhook_pb2 import TakenWebhook, WebhookReceipt
from florin_client import AsyncClient, FlorinError, NotFoundError

from florin_server.cli.console import (
    console,
    fail,
    print_hint,
    print_json_line,
)
from florin_server.cli.operation import usage_error
from florin_server.cli.server import ConnectionOptions, connect_as_merchant_async
from florin_server.domain.webhooks import signing
from florin_server.domain.webhooks.signing import WebhookKeys

# marks endpoints of this command, so that it can delete one that was left behind
DESCRIPTION = "florin listen"
_WAIT_MS = 10_000
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_TIMEOUT_S = 15.0


def run_listener(connection: ConnectionOptions, forward_to: str, events: list[str]) -> None:
    """Listen until a signal interrupts it."""
    if not forward_to.startswith(("http://", "https://")):
        usage_error(
            f"{forward_to[:80]!r} is not a URL for --forward-to; write "
            "http://localhost:3000/webhooks"
        )
    asyncio.run(_until_signalled(_listen(connection, forward_to, events)))


async def _until_signalled(listening: Coroutine[Any, Any, None]) -> None:
    """Run until SIGINT or SIGTERM, then let the listener delete its endpoint.

    Set the handlers explicitly: in a background job of a script the shell ignores SIGINT, and
    Python then installs no handler.
    """
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(listening)

    def stop() -> None:
        for signum in _SIGNALS:
            # a second one must not cut the deletion short
            loop.add_signal_handler(signum, lambda: None)
        task.cancel()

    for signum in _SIGNALS:
        loop.add_signal_handler(signum, stop)
    try:
        await task
    except asyncio.CancelledError:
        print_hint("Stopped listening.")


async def _listen(connection: ConnectionOptions, forward_to: str, events: list[str]) -> None:
    keys = WebhookKeys.generate(os.urandom)
    async with connect_as_merchant_async(connection) as client, aiohttp.ClientSession() as session:
        await _delete_leftovers(client)
        webhook_endpoint_secret = await client.webhook.create_webhook_endpoint(
            description=DESCRIPTION, events=events
        )
        endpoint_id = webhook_endpoint_secret.endpoint.id
        if not print_json_line(
            {"endpoint": endpoint_id, "forwardTo": forward_to, "secret": keys.secret}
        ):
            print_hint(f"Forwarding to {forward_to}, signed with")
            console.print(keys.secret)
        try:
            await _forward_webhooks(client, session, endpoint_id, keys, forward_to)
        except NotFoundError:
            fail("Stopped", "another `florin listen` took over")
        finally:
            with suppress(FlorinError):
                await client.webhook.delete_webhook_endpoint(endpoint_id)


async def _delete_leftovers(client: AsyncClient) -> None:
    """Delete the endpoint that a killed listener left behind, and its queued deliveries."""
    left = [
        webhook_endpoint
        async for webhook_endpoint in client.webhook.list_webhook_endpoints()
        if not webhook_endpoint.url
    ]
    for endpoint in left:
        if endpoint.description != DESCRIPTION:
            fail(
                "Not done", f"endpoint {endpoint.id} without a URL exists already: delete it first"
            )
        await client.webhook.delete_webhook_endpoint(endpoint.id)


async def _forward_webhooks(
    client: AsyncClient,
    session: aiohttp.ClientSession,
    endpoint_id: str,
    keys: WebhookKeys,
    forward_to: str,
) -> None:
    receipts: list[WebhookReceipt] = []
    while True:
        # report results at once: later deliveries wait for them
        taken = await client.webhook.take_webhooks(
            endpoint_id, receipts=receipts, max_wait_ms=_WAIT_MS, timeout=2 * _WAIT_MS / 1000
        )
        receipts = await asyncio.gather(
            *(_deliver(session, keys, forward_to, webhook) for webhook in taken.events)
        )


async def _deliver(
    session: aiohttp.ClientSession, keys: WebhookKeys, forward_to: str, webhook: TakenWebhook
) -> WebhookReceipt:
    body = webhook.body.encode()
    headers = signing.build_headers([keys], webhook.event_id, int(time.time()), body)
    receipt = WebhookReceipt(token=webhook.token)
    try:
        async with session.post(
            forward_to,
            data=body,
            headers={**headers, "content-type": "application/json"},
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=_TIMEOUT_S),
        ) as answer:
            receipt.http_status = answer.status
            name__ = str(answer.status)
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        name__ = type(error).__name__
    kind = json.loads(body)["type"]
    if not print_json_line({"id": webhook.event_id, "type": kind, "answer": name__}):
        console.print(f"{kind:<20} {webhook.event_id}  {name__}")
    return receipt
