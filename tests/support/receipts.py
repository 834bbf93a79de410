"""Receipts as a third party checks them: in a process of its own, without a state folder."""

from __future__ import annotations

import asyncio
import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.command import Forks
from tests.support.desk import Desk

JWKS = "/.well-known/jwks.json"


@dataclass
class Verifier:
    """Somebody who has a node, and the keys of an installation in a file."""

    forks: Forks
    folder: Path
    rpc_url: str

    async def keys_of(self, desk: Desk, name: str = "keys.json") -> Path:
        answer = await desk.ask("GET", JWKS)
        assert answer.status == 200, answer.text
        file = self.folder / name
        file.write_text(answer.text)
        return file

    async def run(self, receipt: str, *options: str, rpc_url: str | None = None) -> tuple[int, Any]:
        """What the command ends with, and what it tells."""
        file = self.folder / "receipt.jws"
        file.write_text(receipt)
        told = ["--rpc-url", rpc_url or self.rpc_url, "--json", *options]
        # nothing is there, and nothing may be made there
        home = self.folder / "nobody" / "home"
        home.parent.mkdir(exist_ok=True)
        done = await asyncio.to_thread(self.forks, "verify-receipt", str(file), *told, home=home)
        assert not home.exists()
        assert done.err == "", done.err
        return done.status, json.loads(done.out)


def said_in(text: str) -> Any:
    """What a receipt says, believed."""
    body = text.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))


def outcomes(told: Any) -> dict[str, str]:
    """How each check ended."""
    return {one["check"]: one["outcome"] for one in told["checks"]}


async def receipt_of(desk: Desk, payment_id: str, headers: Any = None) -> str:
    """The receipt that the merchant gets."""
    path = f"/v1/payments/{payment_id}/receipt"
    answer = await desk.rest.call("GET", path, headers or desk.rest.merchant)
    return str(answer["receipt"])
