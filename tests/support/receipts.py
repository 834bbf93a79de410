"""Receipts as a third party verifies them: in a process of its own, without a state folder."""

from __future__ import annotations

import asyncio
import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.command import CommandForks
from tests.support.service_harness import ServiceHarness

JWKS = "/.well-known/jwks.json"


@dataclass
class ReceiptVerifier:
    """A third party with a node, and the keys of an installation in a file."""

    forks: CommandForks
    folder: Path
    rpc_url: str

    async def keys_of(self, desk: ServiceHarness, name: str = "keys.json") -> Path:
        answer = await desk.ask("GET", JWKS)
        assert answer.status == 200, answer.text
        file = self.folder / name
        file.write_text(answer.text)
        return file

    async def run(self, receipt: str, *options: str, rpc_url: str | None = None) -> tuple[int, Any]:
        """Run the command; return its exit status and its output."""
        file = self.folder / "receipt.jws"
        file.write_text(receipt)
        result = ["--rpc-url", rpc_url or self.rpc_url, "--json", *options]
        # no file is there, and none may be created
        home = self.folder / "unknown" / "home"
        home.parent.mkdir(exist_ok=True)
        done = await asyncio.to_thread(self.forks, "verify-receipt", str(file), *result, home=home)
        assert not home.exists()
        assert done.err == "", done.err
        return done.status, json.loads(done.out)


def decode_claims(text: str) -> Any:
    """Return a receipt's claims, unverified."""
    body = text.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))


def get_outcomes(result: Any) -> dict[str, str]:
    """Return the outcome of each check."""
    return {check["check"]: check["outcome"] for check in result["checks"]}


async def get_receipt(desk: ServiceHarness, payment_id: str, headers: Any = None) -> str:
    """Return the receipt that the merchant gets."""
    path = f"/v1/payments/{payment_id}/receipt"
    answer = await desk.rest.call("GET", path, headers or desk.rest.merchant)
    return str(answer["receipt"])
