"""A confirm that runs while its payment changes: it is answered as if it came after the change."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from florin_server.compliance.buyer_data.service import requirement
from florin_server.domain.payments import results
from florin_server.domain.payments.payment import Confirmation
from florin_server.domain.payments.state import PaymentStateEvent
from florin_server.money.payments.store import payments

from tests.support.api import ApiCallError
from tests.support.service_harness import ORDER, PaymentOffer, ServiceHarness
from tests.support.wallet import EvmTestWallet

pytestmark = pytest.mark.asyncio(loop_scope="module")

MISMATCH = ["0x" + "11" * 65] * 3


class Gate:
    """Stops the first caller that has done a step."""

    def __init__(self, step: Callable[..., Awaitable[Any]]) -> None:
        self.step, self.taken = step, False
        self.reached, self.open = asyncio.Event(), asyncio.Event()

    async def __call__(self, *args: Any, **named: Any) -> Any:
        first, self.taken = not self.taken, True
        result = await self.step(*args, **named)
        if first:
            self.reached.set()
            await self.open.wait()
        return result


@pytest.fixture
def verified(desk, monkeypatch) -> Gate:
    (rail,) = desk.service.app.rails.values()
    gate = Gate(rail.verifier.verify)
    monkeypatch.setattr(rail.verifier, "verify", gate)
    return gate


@pytest.fixture
def read(monkeypatch) -> Gate:
    gate = Gate(requirement.require_data)
    monkeypatch.setattr(requirement, "require_data", gate)
    return gate


async def outcome(call: Awaitable[Any]) -> Any:
    """Return the answer to a confirm, or its refusal."""
    try:
        return await call
    except ApiCallError as error:
        return (error.http, error.code, error.message, error.details)


async def overtaken(
    gate: Gate, confirm: Awaitable[Any], other: Callable[[], Awaitable[Any]]
) -> Any:
    """Return the answer to a confirm that is stopped at a gate while another change is made."""
    first = asyncio.create_task(outcome(confirm))
    await asyncio.wait_for(gate.reached.wait(), 20)
    await other()
    gate.open.set()
    return await first


async def two_offers(desk: ServiceHarness) -> tuple[PaymentOffer, PaymentOffer]:
    """Return the offers of two wallets that can pay one payment."""
    this_wallet, other = EvmTestWallet(), EvmTestWallet()
    payment_id = (await desk.rest.create(ORDER))["paymentId"]
    found_results = await desk.rest.options(payment_id, [this_wallet.account, other.account])
    offers = {option["account"]: option for option in found_results["options"]}
    first, second = (
        PaymentOffer(payment_id, option["id"], wallet.execute_all(option), wallet, option)
        for wallet, option in ((wallet, offers[wallet.account]) for wallet in (this_wallet, other))
    )
    return first, second


async def paid(desk: ServiceHarness, offer: PaymentOffer) -> None:
    await desk.confirm(offer)
    assert (await desk.wait_final(offer.payment_id))["status"] == "succeeded"


async def test_concurrent_equal_confirm_returns_its_own_result(desk, verified):
    offer = await desk.offer()
    result = await overtaken(verified, desk.confirm(offer), lambda: paid(desk, offer))
    assert result == await desk.confirm(offer)
    assert (result["status"], result["isFinal"]) == ("succeeded", True)


async def test_another_confirm_that_was_first_is_a_conflict(desk, verified):
    mine, offer = await two_offers(desk)
    result = await overtaken(verified, desk.confirm(mine), lambda: paid(desk, offer))
    assert result == await outcome(desk.confirm(mine))
    assert result[:2] == (409, "idempotency_conflict")


async def test_a_payment_that_was_cancelled_meanwhile_takes_no_money(desk, verified):
    offer = await desk.offer()
    result = await overtaken(
        verified, desk.confirm(offer), lambda: desk.rest.cancel(offer.payment_id)
    )
    assert result == await outcome(desk.confirm(offer))
    assert result[:2] == (400, "invalid_state")
    assert (await desk.wait_final(offer.payment_id))["status"] == "cancelled"


async def test_a_refusal_that_comes_late_ends_nothing(desk, read):
    offer = await desk.offer()
    wrong = desk.rest.confirm(offer.payment_id, offer.option_id, MISMATCH)
    result = await overtaken(read, wrong, lambda: paid(desk, offer))
    assert result[:2] == (409, "idempotency_conflict")
    assert (await desk.wait_final(offer.payment_id))["status"] == "succeeded"


async def seen_on_chain(desk: ServiceHarness, offer: PaymentOffer, output: str) -> None:
    """Bind a payment to a transaction, as when the chain reports the transaction first."""
    app = desk.service.app
    option = await app.store.read(payments.find_option(offer.payment_id, offer.option_id))
    outputs = (json.dumps(output),)
    digest = results.compute_digest(offer.option_id, outputs)
    bound = Confirmation(offer.payment_id, offer.option_id, outputs, digest, app.clock.now_us())
    accept = payments.accept(
        bound, option, 0, (None, None), bound.at_us, cause=PaymentStateEvent.SEEN_ON_CHAIN
    )
    assert await app.store.write(accept) is not None


@pytest.mark.parametrize("meanwhile", [False, True])
async def test_last_transaction_counts_when_the_chain_proves_the_payment_first(
    desk, read, meanwhile
):
    """A settlement event shows only the last transaction, not the allowances before it."""
    offer = await desk.offer()
    allowances, paid_by = ["0x" + "aa" * 32, "0x" + "bb" * 32], "0x" + "cc" * 32

    async def confirm(outputs: list[str]) -> Any:
        return await outcome(desk.rest.confirm(offer.payment_id, offer.option_id, outputs))

    if meanwhile:
        mine = confirm([*allowances, paid_by])
        result = await overtaken(read, mine, lambda: seen_on_chain(desk, offer, paid_by))
    else:
        await seen_on_chain(desk, offer, paid_by)
        result = await confirm([*allowances, paid_by])
    assert result["status"] == "processing"
    assert (await confirm([paid_by]))["status"] == "processing"
    for remaining in (allowances, [paid_by, *allowances]):
        assert (await confirm(remaining))[:2] == (409, "idempotency_conflict")


async def test_concurrent_equal_refusal_returns_its_own_result(desk, read):
    offer = await desk.offer()

    async def wrong() -> Any:
        return await desk.rest.confirm(offer.payment_id, offer.option_id, MISMATCH)

    result = await overtaken(read, wrong(), wrong)
    assert result == await wrong()
    assert (result["status"], result["isFinal"]) == ("failed", True)
