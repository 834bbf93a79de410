"""`florin listen`: webhooks for a machine that nobody can reach.

It takes what waits from a Florin, anywhere, signs it anew with a secret of its own, and hands it to
a server here. What that answers is what the Florin is told.
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

from florin_server.cli.console import console, fail, note, told_line
from florin_server.cli.operation import misused
from florin_server.cli.server import At, as_merchant_at_once
from florin_server.domain.webhooks import signing
from florin_server.domain.webhooks.signing import Keys

# by which one that was left behind is known
DESCRIPTION = "florin listen"
_WAIT_MS = 10_000
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_ANSWER_S = 15.0


def run(at: At, forward_to: str, events: list[str]) -> None:
    """Listens until it is interrupted."""
    if not forward_to.startswith(("http://", "https://")):
        misused("--forward-to is an address such as http://localhost:3000/webhooks")
    asyncio.run(_until_signalled(_listen(at, forward_to, events)))


async def _until_signalled(listening: Coroutine[Any, Any, None]) -> None:
    """Run until SIGINT or SIGTERM, which let it delete its endpoint.

    Python heeds no SIGINT in a background job of a script, whose shell has it ignored.
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
        note("Nobody listens any more.")


async def _listen(at: At, forward_to: str, events: list[str]) -> None:
    keys = Keys.new(os.urandom)
    async with as_merchant_at_once(at) as client, aiohttp.ClientSession() as session:
        await _forget(client)
        made = await client.webhook.create_webhook_endpoint(description=DESCRIPTION, events=events)
        endpoint_id = made.endpoint.id
        if not told_line({"endpoint": endpoint_id, "forwardTo": forward_to, "secret": keys.secret}):
            note(f"Handed on to {forward_to}, signed with")
            console.print(keys.secret)
        try:
            await _forward(client, session, endpoint_id, keys, forward_to)
        except NotFoundError:
            fail("Ended", "somebody else listens now")
        finally:
            with suppress(FlorinError):
                await client.webhook.delete_webhook_endpoint(endpoint_id)


async def _forget(client: AsyncClient) -> None:
    """Deletes what one that was killed left behind, and all that waits for it."""
    left = [one async for one in client.webhook.list_webhook_endpoints() if not one.url]
    for one in left:
        if one.description != DESCRIPTION:
            fail("Not done", f"endpoint {one.id} without a URL is there already: delete it first")
        await client.webhook.delete_webhook_endpoint(one.id)


async def _forward(
    client: AsyncClient,
    session: aiohttp.ClientSession,
    endpoint_id: str,
    keys: Keys,
    forward_to: str,
) -> None:
    receipts: list[WebhookReceipt] = []
    while True:
        # receipts go at once: what follows waits for them
        taken = await client.webhook.take_webhooks(
            endpoint_id, receipts=receipts, max_wait_ms=_WAIT_MS, timeout=2 * _WAIT_MS / 1000
        )
        receipts = await asyncio.gather(
            *(_hand_on(session, keys, forward_to, one) for one in taken.events)
        )


async def _hand_on(
    session: aiohttp.ClientSession, keys: Keys, forward_to: str, one: TakenWebhook
) -> WebhookReceipt:
    body = one.body.encode()
    headers = signing.headers([keys], one.event_id, int(time.time()), body)
    receipt = WebhookReceipt(token=one.token)
    try:
        async with session.post(
            forward_to,
            data=body,
            headers={**headers, "content-type": "application/json"},
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=_ANSWER_S),
        ) as answer:
            receipt.http_status = answer.status
            said = str(answer.status)
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        said = type(error).__name__
    kind = json.loads(body)["type"]
    if not told_line({"id": one.event_id, "type": kind, "answer": said}):
        console.print(f"{kind:<20} {one.event_id}  {said}")
    return receipt
