"""Ends of payments by Solana Pay: in coin, by blocked payers, after restarts; and receipts."""

from __future__ import annotations

import pytest
import pytest_asyncio
from florin.v1 import held_pb2

from tests.support.installation import open_operator
from tests.support.operator import block, check_ledger
from tests.support.receipts import ReceiptVerifier, get_outcomes, get_receipt
from tests.support.service_harness import ServiceHarness, open_service
from tests.support.solana import (
    COIN,
    INSTANT_SOLANA,
    SolanaNodeClient,
    SolanaTestWallet,
    wait_exact,
)
from tests.support.solana_coin import GBP, LAMPORTS
from tests.support.solana_offers import make_offer
from tests.support.solana_pay import (
    ORDER,
    fetch_transaction,
    fund,
    let_time_pass,
    list_legacy_instructions,
    post_account,
    send_instructions,
    wait_status,
)
from tests.support.until import advance, wait_until

pytestmark = pytest.mark.asyncio(loop_scope="module")
RATES = {COIN: {"GBP": "120.00"}}


async def open_accounts(service: ServiceHarness) -> None:
    """Open the merchant's account, by the first payment on Solana."""
    offer = await make_offer(service.rest, SolanaTestWallet())
    await offer.confirm()
    assert (await offer.final())["status"] == "succeeded"


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def service(tmp_path_factory):
    home = tmp_path_factory.mktemp("solana_pay_ends") / "home"
    async with open_service(home, solana=INSTANT_SOLANA, rates=RATES) as service:
        await open_accounts(service)
        yield service


@pytest.fixture
def node(service: ServiceHarness) -> SolanaNodeClient:
    return SolanaNodeClient(service.session, service.env["FLORIN_SOLANA_RPC_URL"])


@pytest_asyncio.fixture(loop_scope="module")
async def wallet(node) -> SolanaTestWallet:
    wallet = SolanaTestWallet()
    await fund(node, wallet)
    return wallet


async def test_coin_at_a_rate_pays_by_link(service, node, wallet):
    payment_id = (await service.rest.create({"amount": GBP}))["paymentId"]
    transaction = await fetch_transaction(service, payment_id, wallet)
    held = await node.coin(wallet.address)
    await send_instructions(node, wallet, list_legacy_instructions(transaction.message))
    await wait_status(service, node, payment_id, "succeeded")
    assert await node.coin(wallet.address) == held - LAMPORTS - 5_000
    await wait_exact(service, node)


async def test_coin_after_its_quote_is_returned_and_the_payment_stays_open(service, node, wallet):
    created = await service.rest.create({"amount": GBP, "expiresAt": service.now + 3600})
    payment_id = created["paymentId"]
    transaction = await fetch_transaction(service, payment_id, wallet)
    service.clock.advance(301)
    held = await node.coin(wallet.address)
    await send_instructions(node, wallet, list_legacy_instructions(transaction.message))

    async def move() -> None:
        await let_time_pass(service, node, 2)
        await advance(service.clock, 10)

    async def read() -> int:
        return await node.coin(wallet.address)

    await wait_until(read, held - 5_000, meanwhile=move)
    assert (await service.rest.status(payment_id))["status"] == "requires_action"
    await wait_exact(service, node)


async def test_blocked_account_gets_no_transaction(service, node, wallet):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    await block(service, wallet.address)
    answer = await post_account(service, payment_id, wallet.address)
    assert answer.refusal == (451, "sanctioned_user")


async def test_money_of_a_payer_blocked_after_the_request_is_held(service, node, wallet):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    transaction = await fetch_transaction(service, payment_id, wallet)
    await block(service, wallet.address)
    await send_instructions(node, wallet, list_legacy_instructions(transaction.message))
    async with open_operator(service.service) as operator:

        async def find_held() -> list[str]:
            request = held_pb2.ListHeldPaymentsRequest()
            items = (await operator.call("ListHeldPayments", request)).held_payments
            return [item.payment_id for item in items if item.payment_id == payment_id]

        await wait_until(find_held, [payment_id], meanwhile=lambda: let_time_pass(service, node, 2))
    assert (await service.rest.status(payment_id))["status"] == "processing"


async def test_third_parties_verify_the_receipt(service, node, wallet, forks, tmp_path):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    transaction = await fetch_transaction(service, payment_id, wallet)
    await send_instructions(node, wallet, list_legacy_instructions(transaction.message))
    await wait_status(service, node, payment_id, "succeeded")
    receipt = await get_receipt(service, payment_id)
    verifier = ReceiptVerifier(forks, tmp_path, service.env["FLORIN_SOLANA_RPC_URL"])
    options = ["--jwks", str(await verifier.keys_of(service))]
    status, result = await verifier.run(receipt, *options)
    assert status == 0, result
    assert set(get_outcomes(result).values()) == {"passed"}


async def test_transaction_before_a_restart_pays_after_it(tmp_path):
    home, wallet = tmp_path / "home", SolanaTestWallet()
    async with open_service(home, solana=INSTANT_SOLANA) as service:
        await open_accounts(service)
        node = SolanaNodeClient(service.session, service.env["FLORIN_SOLANA_RPC_URL"])
        await fund(node, wallet)
        payment_id = (await service.rest.create(ORDER))["paymentId"]
        transaction = await fetch_transaction(service, payment_id, wallet)
        # nothing is looked at while the clock stands still
        await let_time_pass(service, node, 2)
        signature = await send_instructions(
            node, wallet, list_legacy_instructions(transaction.message)
        )
        assert (await service.rest.status(payment_id))["status"] == "requires_action"
    async with open_service(home, solana=INSTANT_SOLANA) as service:
        node = SolanaNodeClient(service.session, service.env["FLORIN_SOLANA_RPC_URL"])
        detail = await wait_status(service, node, payment_id, "succeeded")
        assert detail["info"]["txId"] == signature
        await check_ledger(service)
