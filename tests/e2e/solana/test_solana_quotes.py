"""A price holds as long as its quote, also if the relayer was down when it should have been paid.

The chain knows nothing of quotes: what is not sent in time is made worthless before it can be.
"""

from __future__ import annotations

import asyncio

import pytest
import pytest_asyncio

from tests.support.desk import Desk, opened
from tests.support.solana import AT_ONCE, COIN, SolanaNode, SolanaWallet, exact, passing
from tests.support.solana_coin import CHAIN, GBP, LAMPORTS
from tests.support.solana_durable import free, is_durable
from tests.support.solana_offers import Offer
from tests.support.until import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

QUOTE_S = 300
GRACE_S = 120
TWO_HOURS_S = 7_200
RATES = {COIN: {"GBP": "120.00"}}


@pytest_asyncio.fixture(loop_scope="module", scope="module", params=[0, 1], ids=["hash", "nonce"])
async def desk(tmp_path_factory, request):
    """With durable nonces, and without."""
    home = tmp_path_factory.mktemp("quotes") / "home"
    solana = AT_ONCE.model_copy(update={"durable_nonces": request.param})
    async with opened(home, solana=solana, rates=RATES) as desk:
        yield desk


@pytest.fixture
def node(desk: Desk) -> SolanaNode:
    return SolanaNode(desk.session, desk.env["FLORIN_SOLANA_RPC_URL"])


@pytest.fixture
def wallet() -> SolanaWallet:
    return SolanaWallet()


def has_nonces(desk: Desk) -> bool:
    return bool(desk.service.settings.embedded_solana.durable_nonces)


async def quoted(desk: Desk, node: SolanaNode, wallet: SolanaWallet) -> Offer:
    """A payment in coin at a rate; with a nonce if there are any."""
    if has_nonces(desk):
        await until(lambda: free(desk), meanwhile=passing(desk, node))
    offer = Offer(desk.rest, wallet, 0)
    made = await desk.rest.call("POST", "/v1/payments", desk.rest.merchant, {"amount": GBP})
    offer.payment_id = made["paymentId"]
    found = (await desk.rest.options(offer.payment_id, [wallet.account]))["options"]
    (offer.option,) = [one for one in found if one["amount"]["unit"] == f"caip19/{COIN}"]
    assert offer.option["expiresAt"] == desk.now + QUOTE_S
    await offer.fetch()
    assert is_durable(offer) is has_nonces(desk)
    return offer


async def _journaled(desk: Desk) -> bool:
    return bool(desk.select("SELECT 1 FROM chain_tx WHERE state = 'signed'"))


async def failed(desk: Desk, node: SolanaNode, offer: Offer) -> None:
    """Returns once the payment failed for good: its transaction is provably dead."""
    watching = asyncio.create_task(offer.final())
    await until(watching.done, meanwhile=passing(desk, node))
    assert (await watching)["status"] == "failed"
    if has_nonces(desk):
        await until(lambda: free(desk), meanwhile=passing(desk, node))
    else:
        await node.fault("slots", slots=200)
    await exact(desk, node)


async def test_a_relayer_that_was_down_does_not_pay_at_a_dead_price(desk, node, wallet):
    """It was confirmed in time, and never sent."""
    relayer = desk.service.app.executors[f"{CHAIN}:{desk.service.app.rails[CHAIN].senders[0]}"]
    offer = await quoted(desk, node, wallet)
    held = await node.coin(wallet.address)
    relayer.pause()
    await offer.confirm()
    desk.clock.advance(TWO_HOURS_S)
    relayer.resume()
    if not has_nonces(desk):
        await node.fault("slots", slots=200)
    await failed(desk, node, offer)
    assert await node.coin(wallet.address) == held


async def test_what_was_written_down_and_never_sent_is_not_sent_then_either(desk, node, wallet):
    """It was signed and journaled, and the relayer stopped before any node had it."""
    relayer = desk.service.app.executors[f"{CHAIN}:{desk.service.app.rails[CHAIN].senders[0]}"]
    offer = await quoted(desk, node, wallet)
    held = await node.coin(wallet.address)
    await node.fault("answer", method="sendTransaction", effect="error", times=1000)
    await offer.confirm()
    await until(lambda: _journaled(desk))
    relayer.pause()
    await node.fault("clear")
    desk.clock.advance(TWO_HOURS_S)
    relayer.resume()
    # time goes on, and no slot: the blockhash alone would still be good
    for _ in range(5):
        desk.clock.advance(10)
        await desk.rest.status(offer.payment_id)
    assert await node.coin(wallet.address) == held
    if not has_nonces(desk):
        await node.fault("slots", slots=200)
    await failed(desk, node, offer)
    assert await node.coin(wallet.address) == held


async def test_who_confirms_in_the_last_second_is_paid_within_the_grace(desk, node, wallet):
    relayer = desk.service.app.executors[f"{CHAIN}:{desk.service.app.rails[CHAIN].senders[0]}"]
    offer = await quoted(desk, node, wallet)
    held = await node.coin(wallet.address)
    desk.clock.advance(QUOTE_S - 1)
    relayer.pause()
    await offer.confirm()
    desk.clock.advance(GRACE_S)
    relayer.resume()
    assert (await offer.final())["status"] == "succeeded"
    assert await node.coin(wallet.address) == held - LAMPORTS
    await exact(desk, node)


async def test_a_second_later_it_is_not(desk, node, wallet):
    relayer = desk.service.app.executors[f"{CHAIN}:{desk.service.app.rails[CHAIN].senders[0]}"]
    offer = await quoted(desk, node, wallet)
    held = await node.coin(wallet.address)
    desk.clock.advance(QUOTE_S - 1)
    relayer.pause()
    await offer.confirm()
    desk.clock.advance(GRACE_S + 2)
    relayer.resume()
    if not has_nonces(desk):
        await node.fault("slots", slots=200)
    await failed(desk, node, offer)
    assert await node.coin(wallet.address) == held
