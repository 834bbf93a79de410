"""A payment from order to settlement, through REST, through a remote gateway and through gRPC."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.payment_flow import ORDER, PRICE, follow_payment

pytestmark = pytest.mark.usefixtures("funded")


@pytest.mark.both_chains
async def test_a_buyer_pays_and_the_merchant_gets_the_money(api, wallet, chain, merchant_address):
    created = await api.create(ORDER)
    payment_id = created["paymentId"]
    assert created["status"] == "requires_action"
    assert created["live"] is False
    states = asyncio.create_task(follow_payment(api, payment_id))

    offered = await api.options(payment_id, [wallet.account, "eip155:1:0xnonsense", "rubbish"])
    (option,) = offered["options"]
    assert option["account"] == wallet.account
    assert option["amount"]["value"] == str(PRICE)
    buyer_before = await chain.balance(wallet.address)
    merchant_before = await chain.balance(merchant_address)

    confirmed = await api.confirm(payment_id, option["id"], wallet.execute_all(option))
    assert confirmed["status"] == "processing"

    seen = await asyncio.wait_for(states, 20)
    assert [s["status"] for s in seen] == ["requires_action", "processing", "succeeded"]
    assert [s["version"] for s in seen] == [0, 1, 2]
    final = await api.status(payment_id)
    assert final["status"] == "succeeded"
    assert final["isFinal"] is True
    assert final["info"]["optionAmount"]["value"] == str(PRICE)
    receipt = await chain.ask("eth_getTransactionReceipt", final["info"]["txId"])
    assert receipt["status"] == "0x1"
    assert await chain.balance(wallet.address) == buyer_before - PRICE
    assert await chain.balance(merchant_address) == merchant_before + PRICE

    detail = await api.detail(payment_id)
    assert detail["buyer"]["accountCaip10"] == wallet.account.lower()
    assert detail["settlement"]["successful"]["amount"]["value"] == str(PRICE)
    assert detail["referenceId"] == "order-1001"
    assert await api.merchant_status(payment_id) == final


@pytest.mark.both_chains
async def test_a_repeated_confirm_is_a_poll(api, wallet):
    payment_id = (await api.create(ORDER))["paymentId"]
    (option,) = (await api.options(payment_id, [wallet.account]))["options"]
    outputs = wallet.execute_all(option)
    await api.confirm(payment_id, option["id"], outputs)
    await asyncio.wait_for(follow_payment(api, payment_id), 20)
    again = await api.confirm(payment_id, option["id"], outputs)
    assert again["status"] == "succeeded"
    assert again["info"]["txId"]


@pytest.mark.both_chains
async def test_the_same_account_and_price_keep_their_option(api, wallet):
    payment_id = (await api.create(ORDER))["paymentId"]
    first = await api.options(payment_id, [wallet.account])
    second = await api.options(payment_id, [wallet.account.lower()])
    assert first["options"][0]["id"] == second["options"][0]["id"]
    assert first["options"][0]["actions"] == second["options"][0]["actions"]
    assert second["options"][0]["account"] == wallet.account.lower()


async def test_fetch_gives_the_inline_actions(api, wallet):
    payment_id = (await api.create(ORDER))["paymentId"]
    (option,) = (await api.options(payment_id, [wallet.account]))["options"]
    fetched = await api.fetch(payment_id, option["id"])
    assert fetched["actions"] == option["actions"]


async def test_a_stream_resumes_after_a_version(api, wallet):
    payment_id = (await api.create(ORDER))["paymentId"]
    (option,) = (await api.options(payment_id, [wallet.account]))["options"]
    await api.confirm(payment_id, option["id"], wallet.execute_all(option))
    await asyncio.wait_for(follow_payment(api, payment_id), 20)
    (last,) = await follow_payment(api, payment_id, after=1)
    assert last["status"] == "succeeded"
    assert await follow_payment(api, payment_id, after=2) == []


async def test_a_merchant_cancels_and_repeats_it(api, wallet):
    payment_id = (await api.create(ORDER))["paymentId"]
    first = await api.merchant_cancel(payment_id)
    assert first["status"] == "cancelled"
    assert first["cancelledReason"] == "cancelled_by_merchant"
    assert await api.merchant_cancel(payment_id) == first
    assert (await api.cancel(payment_id))["cancelledReason"] == "cancelled_by_merchant"
    assert (await api.options(payment_id, [wallet.account]))["options"] == []


async def test_a_retried_creation_gives_the_same_payment(api):
    first = await api.create(ORDER, key="order-1001/1")
    assert await api.create(ORDER, key="order-1001/1") == first
    assert (await api.create(ORDER, key="order-1001/2"))["paymentId"] != first["paymentId"]
