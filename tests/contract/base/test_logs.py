"""Logs of a whole service in use: failures are logged, secrets are not."""

from __future__ import annotations

import io
import json
import logging
import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest
from florin_server.base import logs

from tests.support.service_harness import open_service

BUYER = {"fullName": "Ada Lovelace-Planted", "dob": "1815-12-10", "email": "ada@planted.example"}


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """Return all log lines of the process, from INFO on, as the service writes them."""
    written = io.StringIO()
    stream_handler = logging.StreamHandler(written)
    stream_handler.setFormatter(logs.JsonLogFormatter(logs.redactor))
    root = logging.getLogger()
    level = root.level
    root.addHandler(stream_handler)
    root.setLevel(logging.INFO)
    yield written
    root.setLevel(level)
    root.removeHandler(stream_handler)


def read(written: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in written.getvalue().splitlines()]


async def test_failure_is_logged_with_its_request_and_without_secrets(tmp_path, lines):
    armed = False

    def fault(step: str) -> None:
        if armed and step == "commit":
            raise sqlite3.OperationalError("disk I/O error")

    async with open_service(tmp_path, fault=fault) as desk:
        offer = await desk.offer()
        armed = True
        answer = await desk.ask(
            "POST",
            f"/v1/gateway/payment/{offer.payment_id}/confirm?ticket=planted-ticket",
            {**desk.rest.wallet, "Request-Id": "req-of-the-caller"},
            {
                "optionId": offer.option_id,
                "results": [{"type": "walletRpc", "data": [output]} for output in offer.outputs],
                "collectedData": BUYER,
            },
        )
        armed = False
        assert answer.status in {500, 502, 503}
        secrets = desk.service.secrets
        env = desk.env
    result = [item for item in read(lines) if item["logger"].startswith("florin")]
    about = [item for item in result if item.get("request_id") == "req-of-the-caller"]
    assert about
    assert "disk I/O error" in about[0]["message"]
    everything = lines.getvalue()
    for planted in (
        *BUYER.values(),
        "planted-ticket",
        secrets.operator_token,
        secrets.relayer_key.hex(),
        secrets.pepper.hex(),
        env["FLORIN_PARTNER_KEY"],
        env["FLORIN_WALLET_KEY"],
    ):
        assert planted not in everything
