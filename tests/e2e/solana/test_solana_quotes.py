"""A price holds as long as its quote, even if the relayer was down at the time to pay.

The chain knows nothing of quotes: a transaction that is not sent in time is invalidated before it
can be.
"""

from __future__ import annotations

import asyncio

import pytest
import pytest_asyncio

from tests.support.operator import get_relayer, pause, resume
from tests.support.service_harness import ServiceHarness, open_service
from tests.support.solana import (
    COIN,
    INSTANT_SOLANA,
    SolanaNodeClient,
    SolanaTestWallet,
    make_time_step,
    wait_exact,
)
from tests.support.solana_coin import CHAIN, GBP, LAMPORTS
from tests.support.solana_durable import is_durable, list_free_nonces
from tests.support.solana_offers import SolanaOffer
from tests.support.until import wait_until

pytestmark = pytest.mark.asyncio(loop_scope="module")

QUOTE_S = 300
GRACE_S = 120
TWO_HOURS_S = 7_200
RATES = {COIN: {"GBP": "120.00"}}


@pytest_asyncio.fixture(loop_scope="module", scope="module", params=[0, 1], ids=["hash", "nonce"])
async def desk(tmp_path_factory, request):
    """Open a service with durable nonces, and one without."""
    home = tmp_path_factory.mktemp("quotes") / "home"
    solana = INSTANT_SOLANA.model_copy(update={"durable_nonces": request.param})
    async with open_service(home, solana=solana, rates=RATES) as desk:
        yield desk


@pytest.fixture
def node(desk: ServiceHarness) -> SolanaNodeClient:
    return SolanaNodeClient(desk.session, desk.env["FLORIN_SOLANA_RPC_URL"])


@pytest.fixture
def wallet() -> SolanaTestWallet:
    return SolanaTestWallet()


def has_nonces(desk: ServiceHarness) -> bool:
    return bool(desk.service.settings.embedded_solana.durable_nonces)


async def quoted(
    desk: ServiceHarness, node: SolanaNodeClient, wallet: SolanaTestWallet
) -> SolanaOffer:
    """Return a payment in coin at a rate; with a nonce if one is free."""
    if has_nonces(desk):
        await wait_until(lambda: list_free_nonces(desk), meanwhile=make_time_step(desk, node))
    offer = SolanaOffer(desk.rest, wallet, 0)
    created = await desk.rest.call("POST", "/v1/payments", desk.rest.merchant, {"amount": GBP})
    offer.payment_id = created["paymentId"]
    options = (await desk.rest.options(offer.payment_id, [wallet.account]))["options"]
    (offer.option,) = [item for item in options if item["amount"]["unit"] == f"caip19/{COIN}"]
    assert offer.option["expiresAt"] == desk.now + QUOTE_S
    await offer.fetch()
    assert is_durable(offer) is has_nonces(desk)
    return offer


async def _journaled(desk: ServiceHarness) -> bool:
    return bool(desk.select("SELECT 1 FROM chain_tx WHERE state = 'signed'"))


async def failed(desk: ServiceHarness, node: SolanaNodeClient, offer: SolanaOffer) -> None:
    """Return once the payment has failed: its transaction is provably dead."""
    watching = asyncio.create_task(offer.final())
    await wait_until(watching.done, meanwhile=make_time_step(desk, node))
    assert (await watching)["status"] == "failed"
    if has_nonces(desk):
        await wait_until(lambda: list_free_nonces(desk), meanwhile=make_time_step(desk, node))
    else:
        await node.fault("slots", slots=200)
    await wait_exact(desk, node)


async def test_a_relayer_that_was_down_does_not_pay_at_a_dead_price(desk, node, wallet):
    """It was confirmed in time, and never sent."""
    relayer = f"{CHAIN}:{await get_relayer(desk, CHAIN)}"
    offer = await quoted(desk, node, wallet)
    held = await node.coin(wallet.address)
    await pause(desk, relayer)
    await offer.confirm()
    desk.clock.advance(TWO_HOURS_S)
    await resume(desk, relayer)
    if not has_nonces(desk):
        await node.fault("slots", slots=200)
    await failed(desk, node, offer)
    assert await node.coin(wallet.address) == held


async def test_journaled_payment_never_sent_in_its_quote_is_not_sent_later(desk, node, wallet):
    """It was signed and journaled, and the relayer stopped before any node had it."""
    relayer = f"{CHAIN}:{await get_relayer(desk, CHAIN)}"
    offer = await quoted(desk, node, wallet)
    held = await node.coin(wallet.address)
    await node.fault("answer", method="sendTransaction", effect="error", times=1000)
    await offer.confirm()
    await wait_until(lambda: _journaled(desk))
    await pause(desk, relayer)
    await node.fault("clear")
    desk.clock.advance(TWO_HOURS_S)
    await resume(desk, relayer)
    # time advances without slots: the blockhash alone would still be valid
    for _ in range(5):
        desk.clock.advance(10)
        await desk.rest.status(offer.payment_id)
    assert await node.coin(wallet.address) == held
    if not has_nonces(desk):
        await node.fault("slots", slots=200)
    await failed(desk, node, offer)
    assert await node.coin(wallet.address) == held


async def test_payment_confirmed_in_the_last_second_settles_in_the_grace(desk, node, wallet):
    relayer = f"{CHAIN}:{await get_relayer(desk, CHAIN)}"
    offer = await quoted(desk, node, wallet)
    held = await node.coin(wallet.address)
    desk.clock.advance(QUOTE_S - 1)
    await pause(desk, relayer)
    await offer.confirm()
    desk.clock.advance(GRACE_S)
    await resume(desk, relayer)
    assert (await offer.final())["status"] == "succeeded"
    assert await node.coin(wallet.address) == held - LAMPORTS
    await wait_exact(desk, node)


async def test_a_second_later_it_is_not(desk, node, wallet):
    relayer = f"{CHAIN}:{await get_relayer(desk, CHAIN)}"
    offer = await quoted(desk, node, wallet)
    held = await node.coin(wallet.address)
    desk.clock.advance(QUOTE_S - 1)
    await pause(desk, relayer)
    await offer.confirm()
    desk.clock.advance(GRACE_S + 2)
    await resume(desk, relayer)
    if not has_nonces(desk):
        await node.fault("slots", slots=200)
    await failed(desk, node, offer)
    assert await node.coin(wallet.address) == held
