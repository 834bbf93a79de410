"""Options whose actions come from fetch, and payments that a wallet sends itself.

No asset needs either here, so the embedded chain's rail is changed: its signature comes in two
steps, and a third party submits what the wallet signed.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio
from florin_server.accounts.store import keys
from florin_server.db.engine.query import (
    Command,
    Op,
    operation,
    param,
)
from florin_server.db.tables.tables import payment_option_table
from florin_server.domain.payments.payment import Confirmation, Payment, ResolvedBuild
from florin_server.domain.settlement.chain_txs import SettlementItem
from florin_server.money.payments.store import payments
from florin_server.rails.evm.rail import EvmRail
from florin_server.rails.evm.sending.transactions import EvmSigner
from sqlalchemy import update

from tests.support.api import ApiCallError
from tests.support.building_rail import TOKEN, BuildingRail
from tests.support.service_harness import ORDER, ServiceHarness, open_service
from tests.support.wallet import EvmTestWallet

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.both_chains]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def desk(tmp_path_factory, evm):
    async with open_service(tmp_path_factory.mktemp("builds") / "home", evm=evm) as desk:
        yield desk


@pytest.fixture
def building(desk, monkeypatch) -> BuildingRail:
    (rail,) = desk.service.app.rails.values()
    return BuildingRail(rail, monkeypatch)


class BuildPos:
    """One payment and its one option."""

    def __init__(
        self, desk: ServiceHarness, payment_id: str, option: dict[str, Any], wallet: EvmTestWallet
    ) -> None:
        self.desk, self.payment_id, self.option, self.wallet = desk, payment_id, option, wallet

    async def fetch(self, data: str = "") -> list[dict[str, Any]]:
        return (await self.desk.rest.fetch(self.payment_id, self.option["id"], data))["actions"]

    async def confirm(self, outputs: list[Any]) -> dict[str, Any]:
        return await self.desk.rest.confirm(self.payment_id, self.option["id"], outputs)

    async def signed(self) -> list[str]:
        return [self.wallet.execute(action) for action in await self.fetch()]


@pytest_asyncio.fixture(loop_scope="module")
async def pos(desk, building) -> BuildPos:
    wallet = EvmTestWallet()
    await desk.chain.fund(wallet.address)
    payment_id = (await desk.rest.create(ORDER))["paymentId"]
    (option,) = (await desk.rest.options(payment_id, [wallet.account]))["options"]
    return BuildPos(desk, payment_id, option, wallet)


async def refusal(call: Any) -> tuple[int, str]:
    with pytest.raises(ApiCallError) as caught:
        await call
    return caught.value.http, caught.value.code


async def test_build_is_offered_fetched_and_paid_through_both_protocols(desk, pos, building):
    assert pos.option["actions"] == [{"type": "build", "data": {"data": TOKEN}}]
    (same,) = (await desk.grpc.options(pos.payment_id, [pos.wallet.account]))["options"]
    assert same["actions"] == pos.option["actions"]
    outputs = await pos.signed()
    fetched = await desk.grpc.fetch(pos.payment_id, pos.option["id"], TOKEN)
    assert fetched["actions"] == await pos.fetch(TOKEN) == await pos.fetch()
    await pos.confirm(outputs)
    assert (await desk.wait_final(pos.payment_id))["status"] == "succeeded"
    (issued,) = building.verified[-1]
    assert issued.terms == {"turn": 0}


async def test_nothing_is_issued_to_a_wallet_that_may_no_more(desk, pos):
    """Cached data of this process does not change that."""
    wallet, payment = await desk.wallet_app(), f"/v1/gateway/payment/{pos.payment_id}"
    body = {"optionId": pos.option["id"], "data": TOKEN}
    assert (await desk.ask("GET", payment, wallet)).status == 200
    store = desk.service.app.store
    await store.write(keys.revoke_app(wallet["App-Id"], 1))
    answer = await desk.ask("POST", f"{payment}/fetch", wallet, body)
    assert answer.refusal == (401, "invalid_app_id")
    assert await store.read(payments.list_resolved_builds(pos.payment_id, pos.option["id"])) == []


FORGET_HEAD = Command(
    update(payment_option_table)
    .where(payment_option_table.c.payment_id == param("of"))
    .values(head=None)
)


@operation
def forget_head(payment_id: str) -> Op[None]:
    yield FORGET_HEAD(of=payment_id)


@pytest.mark.parametrize("noted", [True, False])
async def test_wallet_transaction_is_searched_from_the_block_of_its_offer(desk, building, noted):
    """Options of an older Florin name no block: the block of their resolved build is used."""
    building.submitted = False
    wallet = EvmTestWallet()
    await desk.chain.fund(wallet.address)
    await desk.chain.mine(5)
    payment_id = (await desk.rest.create(ORDER))["paymentId"]
    (option,) = (await desk.rest.options(payment_id, [wallet.account]))["options"]
    store = desk.service.app.store
    offered_at = (await store.read(payments.find_option(payment_id, option["id"]))).head
    if not noted:
        await store.write(forget_head(payment_id))
    await desk.chain.mine(7)
    pos = BuildPos(desk, payment_id, option, wallet)
    for _ in range(2):
        outputs = await pos.signed()
        desk.clock.advance(60)
        await desk.chain.mine(3)
    await pos.confirm(outputs)
    query = "SELECT from_block FROM confirm WHERE payment_id = ?"
    ((from_block,),) = desk.select(query, payment_id)
    fetched_at = [
        item.head
        for item in await store.read(payments.list_resolved_builds(payment_id, option["id"]))
    ]
    assert offered_at < min(fetched_at) < max(fetched_at)
    first = offered_at if noted else min(fetched_at)
    assert from_block == first - building.rail.confirmations


async def test_data_of_another_build_is_refused(pos):
    assert await refusal(pos.fetch("5b" * 16)) == (400, "invalid_params")
    assert await refusal(pos.confirm(["0x" + "11" * 65])) == (400, "invalid_params")


async def test_data_for_an_option_without_a_build_is_refused(desk):
    wallet = EvmTestWallet()
    await desk.chain.fund(wallet.address)
    offer = await desk.offer(wallet)
    for data in (TOKEN, "00"):
        call = desk.rest.fetch(offer.payment_id, offer.option_id, data)
        assert await refusal(call) == (400, "invalid_params")
    fetched = await desk.rest.fetch(offer.payment_id, offer.option_id)
    assert fetched["actions"] == offer.option["actions"]


async def test_a_build_must_be_fetched_before_it_is_confirmed(desk, pos):
    too_many = ["0x" + "11" * 65] * 2
    assert await refusal(pos.confirm(too_many)) == (400, "invalid_params")
    assert (await desk.rest.status(pos.payment_id))["status"] == "requires_action"
    await pos.fetch()
    assert (await pos.confirm(too_many))["status"] == "failed"


async def test_lapsed_build_is_reissued_and_both_are_verified_against(desk, pos, building):
    before = await pos.fetch()
    desk.clock.advance(59)
    assert await pos.fetch() == before
    desk.clock.advance(1)
    await pos.fetch()
    await pos.fetch()
    await pos.confirm(await pos.signed())
    assert [item.terms["turn"] for item in building.verified[-1]] == [1, 0]
    assert (await desk.wait_final(pos.payment_id))["status"] == "succeeded"


async def test_concurrent_fetches_return_the_same_build(desk, pos, building):
    turns = itertools.count()
    build = building.rail.offers.resolve_build

    async def slow(*args: Any) -> ResolvedBuild | None:
        created = await build(*args)
        return created and replace(created, terms={"turn": next(turns)})

    building.rail.offers.resolve_build = slow
    await asyncio.gather(*(pos.fetch() for _ in range(5)))
    stored = await desk.service.app.store.read(
        payments.list_resolved_builds(pos.payment_id, pos.option["id"])
    )
    assert [item.n for item in stored] == [0]


async def test_a_chain_that_does_not_answer_resolves_nothing(pos, building):
    building.silent = True
    assert await refusal(pos.fetch()) == (503, "internal_error")
    building.silent = False
    assert await pos.fetch()


async def submitted(desk: ServiceHarness, pos: BuildPos, outputs: list[str]) -> str:
    """Submit what a wallet signed, as a third party; return the hash of the transaction."""
    app = desk.service.app
    (rail,) = app.rails.values()
    signer = EvmSigner(b"\x77" * 32)
    await desk.chain.fund(signer.address)
    found_payments = await app.store.read(payments.find_many([pos.payment_id]))
    payment: Payment = found_payments[pos.payment_id]
    option = await app.store.read(payments.find_option(payment.id, pos.option["id"]))
    content = Confirmation(payment.id, option.id, (json.dumps(outputs[0]),), b"", 0)
    urls = rail.chain.rpc_urls or (desk.service.evm_rpc_url,)
    other = EvmRail(rail.chain.model_copy(update={"rpc_url": urls}), signer)
    try:
        await other.start()
        item = SettlementItem(payment, option, content, 0)
        nonce = await other.relay.get_next_nonce(signer.address)
        transaction = await other.relay.sign(signer.address, nonce, [item])
        await other.relay.broadcast(transaction.raw)
    finally:
        await other.close()
    return transaction.hash


async def test_transaction_sent_after_the_confirm_is_detected(desk, pos, building):
    building.submitted = False
    outputs = await pos.signed()
    answer = await pos.confirm(outputs)
    assert answer["status"] == "processing"
    desk.clock.advance(600)
    assert (await desk.rest.status(pos.payment_id))["status"] == "processing"
    tx_hash = await submitted(desk, pos, outputs)
    final = await asyncio.wait_for(desk.wait_final(pos.payment_id), 20)
    assert (final["status"], final["info"]["txId"]) == ("succeeded", tx_hash)
    assert desk.select("SELECT count(*) FROM chain_tx_item WHERE payment_id = ?", pos.payment_id)[
        0
    ] == (0,)


async def test_transaction_sent_long_before_the_confirm_is_detected(
    desk, pos, building, monkeypatch
):
    building.submitted = False
    outputs = await pos.signed()
    tx_hash = await submitted(desk, pos, outputs)
    await desk.chain.mine(5)
    # the authorization is used, and the rail would refuse here for no other reason
    monkeypatch.setattr(building.rail.verifier, "verify", lambda *_: asyncio.sleep(0))
    await pos.confirm(outputs)
    final = await asyncio.wait_for(desk.wait_final(pos.payment_id), 20)
    assert (final["status"], final["info"]["txId"]) == ("succeeded", tx_hash)


async def test_transaction_never_sent_fails_the_payment_once_it_lapses(desk, pos, building):
    building.submitted = False
    created = (await desk.rest.info(pos.payment_id))["expiresAt"]
    await pos.confirm(await pos.signed())
    desk.clock.advance(created + 300 - desk.now)
    await desk.chain.mine()
    final = await asyncio.wait_for(desk.wait_final(pos.payment_id), 20)
    assert final["status"] == "failed"
