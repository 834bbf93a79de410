"""A merchant's back end that is told of changes: what it took, verified by somebody else's code."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from standardwebhooks import Webhook

from tests.support.answering import Answering, Request, Say, answers
from tests.support.until import until

OK = answers(204)


@dataclass
class Receiver:
    """Answers as it is told to, and remembers what came."""

    server: Answering
    secret: str = ""
    say: Say = OK
    said: list[Say] = field(default_factory=list)

    async def __call__(self, request: Request, out: asyncio.StreamWriter) -> None:
        await (self.said.pop(0) if self.said else self.say)(request, out)

    def url(self, path: str = "/hooks") -> str:
        return f"http://127.0.0.1:{self.server.port}{path}"

    def events(self, path: str = "/hooks", secret: str = "") -> list[dict[str, Any]]:
        """What came to a path, each verified, with its id."""
        found = []
        for request in self.server.came:
            if request.line.split()[1] == path:
                Webhook(secret or self.secret).verify(request.body, dict(request.headers))
                found.append({"id": request.headers["webhook-id"], **json.loads(request.body)})
        return found

    async def came(
        self, count: int, path: str = "/hooks", secret: str = ""
    ) -> list[dict[str, Any]]:
        """The same once so many came."""
        await until(lambda: len(self.events(path, secret)) >= count)
        return self.events(path, secret)


def verify_public(request: Request, public_key: str) -> None:
    """Checks the signature that anybody can check; raises if there is none that is right."""
    key = Ed25519PublicKey.from_public_bytes(base64.b64decode(public_key.removeprefix("whpk_")))
    headers = request.headers
    content = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + request.body
    (signed,) = [s for s in headers["webhook-signature"].split() if s.startswith("v1a,")]
    key.verify(base64.b64decode(signed[4:]), content)
    assert abs(time.time() - int(headers["webhook-timestamp"])) < 60
