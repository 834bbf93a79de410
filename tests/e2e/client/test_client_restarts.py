"""The server dies while the Python client waits: nothing is lost or done twice."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest
from florin.v1.payment_pb2 import PAYMENT_STATUS_SUCCEEDED
from florin_client import AsyncClient, Client, Retries
from florin_client.wallet import Wallet

from tests.support.command import RunningCommand
from tests.support.tcp_relay import TcpRelay

pytestmark = pytest.mark.long

PATIENCE_S = 60
PATIENT: dict[str, Any] = {
    "plaintext": True,
    "timeout": PATIENCE_S,
    "retries": Retries(patience_s=PATIENCE_S, stream_patience_s=PATIENCE_S),
}
ORDER: Any = {"amount": ("iso4217/USD", 1250), "reference_id": "killed-1001"}


@pytest.fixture
def up(tmp_path, forks):
    """Start `florin up`, and restart it at the same address with the same state."""
    commands: list[RunningCommand] = []

    def start() -> RunningCommand:
        port = commands[0].env["FLORIN_GRPC_TARGET"].rpartition(":")[2] if commands else "0"
        commands.append(forks.start_lasting("up", home=tmp_path / "home", FLORIN_GRPC_PORT=port))
        return commands[-1]

    yield start
    for command in commands:
        if command.process.poll() is None:
            command.send_signal(signal.SIGTERM)
            assert command.wait_ended().status == 0


def die(florin: RunningCommand) -> None:
    florin.send_signal(signal.SIGKILL)
    florin.wait_ended()


def as_merchant(env: dict[str, str], target: str = "") -> dict[str, Any]:
    keys = {"api_key": env["FLORIN_PARTNER_KEY"], "merchant_id": env["FLORIN_MERCHANT_ID"]}
    return {**PATIENT, **keys, "target": target or env["FLORIN_GRPC_TARGET"]}


def as_wallet(env: dict[str, str]) -> dict[str, Any]:
    keys = {"app_id": env["FLORIN_APP_ID"], "client_id": env["FLORIN_CLIENT_ID"]}
    return {**PATIENT, **keys, "target": env["FLORIN_GRPC_TARGET"]}


def pay(env: dict[str, str], payment_id: str) -> None:
    chain_id = env["FLORIN_EVM_CHAIN"]
    buyer = Wallet.create(rpc_urls={chain_id: env["FLORIN_EVM_RPC_URL"]})
    with Client(**as_wallet(env)) as client:
        offered = client.gateway.get_payment_options(payment_id, accounts=buyer.accounts(chain_id))
        option = offered.options[0]
        actions = client.gateway.executable_actions(payment_id, option)
        outputs = buyer.execute(actions, option=option)
        client.gateway.confirm_payment(payment_id, option_id=option.id, outputs=outputs)


def test_watch_continues_after_the_server_is_killed(up):
    florin = up()
    env, result = florin.env, []
    with Client(**as_merchant(env)) as client:
        payment_id = client.merchant.create_payment(**ORDER).payment_id
        for update in client.merchant.watch_payment(payment_id, timeout=PATIENCE_S):
            result.append((update.version, update.payment.is_final))
            if len(result) == 1:
                die(florin)
                florin = up()
                pay(florin.env, payment_id)
            elif len(result) == 2:
                die(florin)
                florin = up()
        final = client.merchant.wait_final(payment_id)
    assert [version for version, _ in result] == sorted({version for version, _ in result})
    assert [is_final for _, is_final in result].count(True) == 1
    assert result[-1][1]
    assert final.status == PAYMENT_STATUS_SUCCEEDED


async def test_wait_continues_after_the_server_is_stopped_gracefully(up):
    florin = await asyncio.to_thread(up)
    async with AsyncClient(**as_merchant(florin.env)) as client:
        payment_id = (await client.merchant.create_payment(**ORDER)).payment_id
        waiting = asyncio.create_task(client.merchant.wait_final(payment_id, timeout=PATIENCE_S))
        for _ in range(2):
            florin.send_signal(signal.SIGTERM)
            await asyncio.to_thread(florin.wait_ended)
            assert not waiting.done()
            florin = await asyncio.to_thread(up)
        await asyncio.to_thread(pay, florin.env, payment_id)
        assert (await waiting).status == PAYMENT_STATUS_SUCCEEDED


@pytest.mark.parametrize("at", [b"killed-1001", b"pay_"], ids=["before", "after"])
async def test_a_create_is_carried_out_once_when_the_server_dies_in_it(up, at):
    """Before the request reaches it, and after the request was executed but not yet answered."""
    florin = await asyncio.to_thread(up)
    port = int(florin.env["FLORIN_GRPC_TARGET"].rpartition(":")[2])
    async with TcpRelay(port) as relay:
        values = as_merchant(florin.env, f"127.0.0.1:{relay.port}")
        async with AsyncClient(**values) as client:
            mine = client.merchant.list_merchant_payments(reference_id="killed-1001")
            assert [row async for row in mine] == []
            died = asyncio.Event()

            def cut() -> None:
                florin.send_signal(signal.SIGKILL)
                died.set()

            relay.cut(at, cut)
            creating = asyncio.create_task(client.merchant.create_payment(**ORDER))
            await died.wait()
            await asyncio.to_thread(florin.wait_ended)
            await asyncio.to_thread(up)
            created = await creating
            assert [row.payment_id async for row in mine] == [created.payment_id]
