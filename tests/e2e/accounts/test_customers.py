"""Export and erasure of a customer's data."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
import pytest_asyncio
from florin.v1 import customer_pb2, payment_pb2

from tests.support.api import ApiCallError
from tests.support.installation import open_operator
from tests.support.payment_flow import follow_payment
from tests.support.service_harness import PaymentOffer, ServiceHarness
from tests.support.until import wait_until
from tests.support.wallet import EvmTestWallet

pytestmark = pytest.mark.asyncio(loop_scope="module")

# the books, and the transactions, which are public on the chain anyway
BOOKS = {"ledger_transfer", "chain_tx"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def operator(desk):
    async with open_operator(desk.service) as operator:
        yield operator


async def export(operator, account: str) -> customer_pb2.ExportCustomerResponse:
    request = customer_pb2.ExportCustomerRequest(account=account)
    return await operator.call("ExportCustomer", request)


async def erase(operator, account: str) -> tuple[int, int, int]:
    request = customer_pb2.EraseCustomerRequest(account=account)
    erased = await operator.call("EraseCustomer", request)
    return erased.offers_erased, erased.wallet_names_erased, erased.payments_kept


async def refusal(call) -> tuple[int, str]:
    with pytest.raises(ApiCallError) as caught:
        await call
    return caught.value.http, caught.value.code


async def paid(desk: ServiceHarness, wallet: EvmTestWallet) -> PaymentOffer:
    offer = await desk.offer(wallet)
    await desk.confirm(offer)
    states = await asyncio.wait_for(follow_payment(desk.rest, offer.payment_id), 20)
    assert states[-1]["status"] == "succeeded"
    return offer


def traces(desk: ServiceHarness, wallet: EvmTestWallet) -> set[str]:
    """Return the tables on disk that hold the address, in any spelling."""
    digits = wallet.address[2:].lower()
    results = set()
    for table in desk.rows():
        for row in desk.select(f'SELECT * FROM "{table}"'):
            text = " ".join(v.hex() if isinstance(v, bytes) else str(v) for v in row)
            if digits in text.lower():
                results.add(table)
    return results


async def journaled(desk: ServiceHarness, wallet: EvmTestWallet) -> None:
    """Return once a transaction is journaled, which no API reports."""
    await wait_until(lambda: "chain_tx" in traces(desk, wallet))


def row(payment: customer_pb2.CustomerPayment) -> tuple[Any, ...]:
    status = payment_pb2.PaymentStatus.Name(payment.status).removeprefix("PAYMENT_STATUS_")
    return payment.payment_id, status.lower(), payment.payer, payment.wallet_name


async def test_export_lists_everything_stored_about_an_account(desk, operator):
    wallet = EvmTestWallet()
    first = await paid(desk, wallet)
    desk.clock.advance(1)
    offered = await desk.offer(wallet, expiresAt=desk.now + 1)
    desk.clock.advance(1)
    expected = await desk.offer(wallet)
    # an offer to another buyer for the same payment, and another buyer's payment
    await desk.rest.options(expected.payment_id, [EvmTestWallet().account])
    await desk.offer()
    response = await export(operator, wallet.account)
    assert response.account == wallet.account.lower()
    assert [row(customer_payment) for customer_payment in response.payments] == [
        (expected.payment_id, "requires_action", False, ""),
        (offered.payment_id, "expired", False, ""),
        (first.payment_id, "succeeded", True, "Demo wallet"),
    ]
    detail = await desk.rest.detail(first.payment_id)
    assert [customer_payment.tx_id for customer_payment in response.payments] == [
        "",
        "",
        detail["info"]["txId"],
    ]
    assert response.payments[2].created_at.ToDatetime(UTC) == datetime.fromisoformat(
        detail["createdAt"]
    )
    assert await export(operator, wallet.account.lower()) == response


async def test_a_customer_that_only_looked_is_forgotten_without_a_trace(desk, operator):
    wallet = EvmTestWallet()
    running, over = await desk.offer(wallet), await desk.offer(wallet)
    await desk.rest.cancel(over.payment_id)
    refused = await desk.offer(wallet)
    mismatch = ["0x" + "11" * 32]
    await desk.rest.confirm(refused.payment_id, refused.option_id, mismatch)
    assert traces(desk, wallet) == {"payment_option"}
    assert await erase(operator, wallet.account) == (3, 0, 0)
    assert traces(desk, wallet) == set()
    assert await refusal(export(operator, wallet.account)) == (404, "customer_not_found")
    assert await refusal(erase(operator, wallet.account)) == (404, "customer_not_found")
    # the payments are unchanged; the wallet asks again and pays
    assert (await desk.rest.status(over.payment_id))["status"] == "cancelled"
    again = await desk.rest.confirm(refused.payment_id, refused.option_id, mismatch)
    assert again["status"] == "failed"
    with pytest.raises(ApiCallError) as caught:
        await desk.confirm(running)
    assert (caught.value.code, caught.value.message) == ("invalid_params", "Unknown option")
    (option,) = (await desk.rest.options(running.payment_id, [wallet.account]))["options"]
    assert option["id"] == running.option_id
    await desk.confirm(running)
    assert (await desk.wait_final(running.payment_id))["status"] == "succeeded"


async def test_the_books_keep_the_account_and_nothing_else(desk, operator):
    wallet = EvmTestWallet()
    bought, looked = await paid(desk, wallet), await desk.offer(wallet)
    await desk.rest.refund(bought.payment_id)
    await desk.wait_refunded(bought.payment_id)
    before = await desk.rest.detail(bought.payment_id)
    assert await erase(operator, wallet.account) == (1, 1, 1)
    assert await erase(operator, wallet.account) == (0, 0, 1)
    assert traces(desk, wallet) == {"payment", "payment_option", "refund", "payout", *BOOKS}
    after = await desk.rest.detail(bought.payment_id)
    assert after == {**before, "buyer": {**before["buyer"], "accountProviderName": "unknown"}}
    (left,) = (await export(operator, wallet.account)).payments
    assert row(left) == (bought.payment_id, "succeeded", True, "")
    assert (await desk.rest.detail(looked.payment_id))["version"] == 0


@pytest.mark.parametrize("call", [export, erase])
@pytest.mark.parametrize(
    "account",
    [
        "",
        "rubbish",
        "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
        "eip155:31337:0x12",
        f"eip155:31337:0x{'aB' * 20}",
        "x" * 300,
    ],
)
async def test_text_that_is_no_account(operator, call, account):
    assert await refusal(call(operator, account)) == (400, "params_validation")


@pytest.mark.parametrize("call", [export, erase])
async def test_unknown_account_is_refused(operator, call):
    for account in (EvmTestWallet().account, "solana:devnet:" + "1" * 32):
        assert await refusal(call(operator, account)) == (404, "customer_not_found")


async def test_payment_events_contain_no_account(desk):
    """The history is never changed, so it must not hold data that may have to be erased."""
    wallet = EvmTestWallet()
    offer = await paid(desk, wallet)
    events = desk.select("SELECT * FROM payment_event WHERE payment_id = ?", offer.payment_id)
    assert len(events) == 3
    assert "payment_event" not in traces(desk, wallet)


async def test_account_is_erasable_after_its_unsent_payment_failed(desk, operator):
    fault = {"kind": "answer", "method": "eth_sendRawTransaction", "effect": "drop", "times": 99}
    await desk.chain.ask("florin_fault", fault)
    wallet = EvmTestWallet()
    offer = await desk.offer(wallet, expiresAt=desk.now + 60)
    await desk.confirm(offer)
    await journaled(desk, wallet)
    # while its money can still move, the account stays
    assert await erase(operator, wallet.account) == (0, 1, 1)
    assert (await desk.wait_lapsed(offer.payment_id))["status"] == "failed"
    assert (await desk.rest.detail(offer.payment_id))["buyer"] is not None
    assert await erase(operator, wallet.account) == (1, 0, 0)
    assert (await desk.rest.detail(offer.payment_id))["buyer"] is None
    assert traces(desk, wallet) == {"chain_tx"}
    # once it can, the transaction is mined, and its gas cost is one more trace
    await desk.chain.ask("florin_fault", {"kind": "clear"})
    # a dropped transaction keeps its nonce for three blocks, and the next payment would wait for it
    await desk.chain.mine(4)
    last = await desk.offer()
    await desk.confirm(last)
    await desk.chain.mine(4)
    assert (await desk.wait_ended(last.payment_id))["status"] == "succeeded"
