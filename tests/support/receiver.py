"""A merchant's back end that receives events and verifies them with a third party's code."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from standardwebhooks import Webhook

from tests.support.http_stub import HttpStub, ReceivedRequest, StubHandler, make_stub_response
from tests.support.until import wait_until

OK = make_stub_response(204)


@dataclass
class WebhookReceiver:
    """Answers as configured, and records the requests."""

    server: HttpStub
    secret: str = ""
    handler: StubHandler = OK
    handlers: list[StubHandler] = field(default_factory=list)

    async def __call__(self, request: ReceivedRequest, out: asyncio.StreamWriter) -> None:
        await (self.handlers.pop(0) if self.handlers else self.handler)(request, out)

    def url(self, path: str = "/hooks") -> str:
        return f"http://127.0.0.1:{self.server.port}{path}"

    def events(self, path: str = "/hooks", secret: str = "") -> list[dict[str, Any]]:
        """Return the events that came to a path, each verified, with its id."""
        results = []
        for request in self.server.requests:
            if request.line.split()[1] == path:
                Webhook(secret or self.secret).verify(request.body, dict(request.headers))
                results.append({"id": request.headers["webhook-id"], **json.loads(request.body)})
        return results

    async def wait_events(
        self, count: int, path: str = "/hooks", secret: str = ""
    ) -> list[dict[str, Any]]:
        """Return the events once so many came."""
        await wait_until(lambda: len(self.events(path, secret)) >= count)
        return self.events(path, secret)


def verify_public(request: ReceivedRequest, public_key: str) -> None:
    """Verify the public-key signature; raise if none is right."""
    key = Ed25519PublicKey.from_public_bytes(base64.b64decode(public_key.removeprefix("whpk_")))
    headers = request.headers
    content = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + request.body
    (signed,) = [s for s in headers["webhook-signature"].split() if s.startswith("v1a,")]
    key.verify(base64.b64decode(signed[4:]), content)
    assert abs(time.time() - int(headers["webhook-timestamp"])) < 60
