"""A confirm that is looked at while something else happens to its payment: answered as if later."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from florin_server.domain.payments import results
from florin_server.domain.payments.payment import Confirmation
from florin_server.domain.payments.state import Event
from florin_server.flows.capture import requirement
from florin_server.store.payments import payments

from tests.support.api import Refused
from tests.support.desk import ORDER, Desk, Offer
from tests.support.wallet import Wallet

pytestmark = pytest.mark.asyncio(loop_scope="module")

MISMATCH = ["0x" + "11" * 65] * 3


class Gate:
    """Keeps the first one that has done a step from going on."""

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
    gate = Gate(requirement.require)
    monkeypatch.setattr(requirement, "require", gate)
    return gate


async def outcome(call: Awaitable[Any]) -> Any:
    """What a confirm was answered, or refused with."""
    try:
        return await call
    except Refused as error:
        return (error.http, error.code, error.message, error.details)


async def overtaken(
    gate: Gate, confirm: Awaitable[Any], other: Callable[[], Awaitable[Any]]
) -> Any:
    """What a confirm is told that had passed a gate when something else came first."""
    first = asyncio.create_task(outcome(confirm))
    await asyncio.wait_for(gate.reached.wait(), 20)
    await other()
    gate.open.set()
    return await first


async def two_offers(desk: Desk) -> tuple[Offer, Offer]:
    """Two wallets that can pay one payment."""
    one, other = Wallet(), Wallet()
    payment_id = (await desk.rest.create(ORDER))["paymentId"]
    found = await desk.rest.options(payment_id, [one.account, other.account])
    offers = {option["account"]: option for option in found["options"]}
    first, second = (
        Offer(payment_id, option["id"], wallet.execute_all(option), wallet, option)
        for wallet, option in ((wallet, offers[wallet.account]) for wallet in (one, other))
    )
    return first, second


async def paid(desk: Desk, offer: Offer) -> None:
    await desk.confirm(offer)
    assert (await desk.final(offer.payment_id))["status"] == "succeeded"


async def test_an_equal_confirm_that_was_first_is_told_as_ones_own(desk, verified):
    offer = await desk.offer()
    told = await overtaken(verified, desk.confirm(offer), lambda: paid(desk, offer))
    assert told == await desk.confirm(offer)
    assert (told["status"], told["isFinal"]) == ("succeeded", True)


async def test_another_confirm_that_was_first_is_a_conflict(desk, verified):
    mine, others = await two_offers(desk)
    told = await overtaken(verified, desk.confirm(mine), lambda: paid(desk, others))
    assert told == await outcome(desk.confirm(mine))
    assert told[:2] == (409, "idempotency_conflict")


async def test_a_payment_that_was_cancelled_meanwhile_takes_no_money(desk, verified):
    offer = await desk.offer()
    told = await overtaken(
        verified, desk.confirm(offer), lambda: desk.rest.cancel(offer.payment_id)
    )
    assert told == await outcome(desk.confirm(offer))
    assert told[:2] == (400, "invalid_state")
    assert (await desk.final(offer.payment_id))["status"] == "cancelled"


async def test_a_refusal_that_comes_late_ends_nothing(desk, read):
    offer = await desk.offer()
    wrong = desk.rest.confirm(offer.payment_id, offer.option_id, MISMATCH)
    told = await overtaken(read, wrong, lambda: paid(desk, offer))
    assert told[:2] == (409, "idempotency_conflict")
    assert (await desk.final(offer.payment_id))["status"] == "succeeded"


async def seen_on_chain(desk: Desk, offer: Offer, output: str) -> None:
    """Binds a payment to a transaction, as the chain does that tells of it first."""
    app = desk.service.app
    option = await app.store.read(payments.option(offer.payment_id, offer.option_id))
    outputs = (json.dumps(output),)
    digest = results.digest(offer.option_id, outputs)
    bound = Confirmation(offer.payment_id, offer.option_id, outputs, digest, app.clock.now_us())
    accept = payments.accept(bound, option, 0, (None, None), bound.at_us, cause=Event.SEEN_ON_CHAIN)
    assert await app.store.write(accept) is not None


@pytest.mark.parametrize("meanwhile", [False, True])
async def test_of_what_the_chain_told_first_the_last_transaction_counts(desk, read, meanwhile):
    """The allowances before it leave nothing that a settlement event would tell."""
    offer = await desk.offer()
    allowances, paid_by = ["0x" + "aa" * 32, "0x" + "bb" * 32], "0x" + "cc" * 32

    async def confirm(outputs: list[str]) -> Any:
        return await outcome(desk.rest.confirm(offer.payment_id, offer.option_id, outputs))

    if meanwhile:
        mine = confirm([*allowances, paid_by])
        told = await overtaken(read, mine, lambda: seen_on_chain(desk, offer, paid_by))
    else:
        await seen_on_chain(desk, offer, paid_by)
        told = await confirm([*allowances, paid_by])
    assert told["status"] == "processing"
    assert (await confirm([paid_by]))["status"] == "processing"
    for others in (allowances, [paid_by, *allowances]):
        assert (await confirm(others))[:2] == (409, "idempotency_conflict")


async def test_a_refusal_that_came_first_is_told_as_ones_own(desk, read):
    offer = await desk.offer()

    async def wrong() -> Any:
        return await desk.rest.confirm(offer.payment_id, offer.option_id, MISMATCH)

    told = await overtaken(read, wrong(), wrong)
    assert told == await wrong()
    assert (told["status"], told["isFinal"]) == ("failed", True)
