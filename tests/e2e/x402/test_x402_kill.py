"""A facilitator that is killed after it stored a transfer, and before any node has it."""

from __future__ import annotations

import json
import signal
import time
import urllib.request
from typing import Any

import pytest

from tests.support.until import wait_until
from tests.support.x402 import TOKEN, X402Buyer, make_requirements

pytestmark = [pytest.mark.long, pytest.mark.asyncio]
SHOP = "0x" + "5b" * 20
SETTINGS = {"FLORIN_X402__FACILITATOR": "true", "FLORIN_X402__WAIT_S": "0.2"}


def post(url: str, body: Any, **headers: str) -> Any:
    data = json.dumps(body).encode()
    kind = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, data, {**kind, **headers}, method="POST")
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


class KilledFacilitator:
    """The calls of one installation, as a server and as a chain's client."""

    def __init__(self, env: dict[str, str], key: str) -> None:
        self.url = f"{env['FLORIN_BASE_URL']}/x402/facilitator/settle"
        self.rpc = env["FLORIN_EVM_RPC_URL"]
        self.key = key

    def ask(self, method: str, *params: Any) -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
        return post(self.rpc, body)["result"]

    def settle(self, payment: dict[str, Any]) -> dict[str, Any]:
        required = payment["accepted"]
        body = {"x402Version": 2, "paymentPayload": payment, "paymentRequirements": required}
        result: dict[str, Any] = post(self.url, body, **{"Api-Key": self.key})
        return result

    def balance(self, address: str) -> int:
        call = {"to": TOKEN.address, "data": "0x70a08231" + address[2:].lower().rjust(64, "0")}
        return int(self.ask("eth_call", call, "latest"), 16)


async def test_transfer_is_made_once_after_a_kill_between_its_record_and_its_broadcast(
    forks, tmp_path
):
    home, buyer = tmp_path / "home", X402Buyer()
    with forks.start_lasting("up", home=home, **SETTINGS) as up:
        partner = forks("partners", "create", "Paid API", home=home).out.strip()
        scope = ("--scope", "facilitate")
        created = forks("keys", "create", "partner", "--partner", partner, *scope, home=home)
        facilitator = KilledFacilitator(up.env, created.out.strip())
        facilitator.ask("florin_faucet", {"accounts": [buyer.address], "tokens": [TOKEN.address]})
        lost = {"kind": "answer", "method": "eth_sendRawTransaction", "effect": "drop"}
        facilitator.ask("florin_fault", {**lost, "times": 99})
        payment = buyer.sign(make_requirements(SHOP), int(time.time()))
        answer = facilitator.settle(payment)
        assert answer["errorReason"] == "settlement_pending"

        async def read_hash() -> Any:
            return facilitator.settle(payment)["transaction"]

        first = await wait_until(read_hash)
        assert facilitator.balance(SHOP) == 0
        up.send_signal(signal.SIGKILL)
        up.wait_ended()
    with forks.start_lasting("up", home=home, **SETTINGS) as up:
        facilitator = KilledFacilitator(up.env, facilitator.key)

        async def settled() -> Any:
            answer = facilitator.settle(payment)
            return answer if answer["success"] else None

        answer = await wait_until(settled)
        assert answer["transaction"] == first
        assert facilitator.settle(payment) == answer
        assert facilitator.balance(SHOP) == 12_345
