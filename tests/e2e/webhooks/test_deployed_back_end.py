"""A back end that was written for the deployed service works here unchanged."""

from __future__ import annotations

import pytest
import pytest_asyncio
from florin.v1 import payout_pb2

from tests.support.deployed_back_end import DATA, EVENT, SECTIONS, MerchantBackEnd
from tests.support.http_stub import serve_stub
from tests.support.installation import open_operator
from tests.support.payout_merchant import (
    CHAIN,
    DOLLAR,
    FEE,
    PRICE,
    USD,
    PayoutMerchant,
    wait_faucet_booked,
)
from tests.support.service_harness import open_service
from tests.support.until import wait_until
from tests.support.wallet import EvmTestWallet
from tests.support.webhook_merchant import PATH

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.long]

# Florin's additions to the contract
OURS = {"is_final", "refunds"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    home = tmp_path_factory.mktemp("deployed") / "home"
    webhooks = {"networks": ["127.0.0.0/8"], "endpoints_max": 100}
    async with open_service(home, webhooks=webhooks, fee_fixed=7, fee_basis_points=100) as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def shop(desk):
    return PayoutMerchant(desk, await desk.tenant())


@pytest_asyncio.fixture(loop_scope="module")
async def back_end(desk, shop):
    back_end = MerchantBackEnd()
    async with serve_stub(back_end) as server:
        key = {"Api-Key": shop.tenant.headers["Api-Key"]}
        body = {"url": f"http://127.0.0.1:{server.port}/hooks"}
        back_end.secret = (await desk.rest.call("POST", PATH, key, body))["secret"]
        yield back_end
    assert back_end.faults == []
    # every member of the contract is present, and no undocumented one
    for event in back_end.events:
        assert event.keys() == EVENT["properties"].keys()
        assert event["data"].keys() == DATA.keys() | OURS
        for name, schema in SECTIONS.items():
            if (section := event["data"][name]) is not None:
                assert section.keys() == schema["properties"].keys(), name


async def came(back_end, payment_id, *types):
    """Return the events of a payment once the last of some types arrived."""

    def list_payment_events():
        return [event for event in back_end.events if event["data"]["payment_id"] == payment_id]

    await wait_until(lambda: any(event["type"] == types[-1] for event in list_payment_events()))
    events = list_payment_events()
    assert [event["type"] for event in events] == list(types)
    versions = [event["data"]["payment_state_version"] for event in events]
    assert versions == list(range(len(types)))
    return events


PAID = ("payment.created", "payment.processing", "payment.succeeded")


async def test_money_that_goes_to_the_merchant_is_settled_at_once(desk, shop, back_end):
    await shop.set_destination(f"erc20:{DOLLAR}", "0x" + "5b" * 20)
    wallet = EvmTestWallet()
    await wait_faucet_booked(desk, wallet)
    payment_id = await shop.create_paid_payment(wallet, USD)
    *_, processing, succeeded, settled = await came(back_end, payment_id, *PAID, "payment.settled")
    unit = f"caip19/{CHAIN}/erc20:{DOLLAR}"
    shown = processing["data"]["processing"]
    assert shown["option_amount"] == {"unit": unit, "value": str(PRICE)}
    assert shown["settlement_amount"] == {"unit": unit, "value": str(PRICE - FEE)}
    assert (shown["buyer_caip10"], shown["chain_caip2"]) == (wallet.account.lower(), CHAIN)
    assert shown["fee"] == {
        "kind": "base_plus_percent",
        "base_amount": {"unit": unit, "value": "7"},
        "percent": {"numerator": "100", "denominator": "10000"},
        "percent_amount": {"unit": unit, "value": str(PRICE // 100)},
        "total_amount": {"unit": unit, "value": str(FEE)},
    }
    assert succeeded["data"]["settled"] is None
    assert settled["data"]["settled"] == {
        "settled_at": settled["created_at"],
        "tx_id": succeeded["data"]["success"]["tx_id"],
        "amount": {"unit": unit, "value": str(PRICE - FEE)},
    }
    assert settled["data"]["status"] == "succeeded"
    order = back_end.orders[payment_id]
    assert (order.state, order.got) == ("settled", PRICE - FEE)
    # the stream's version of the final status is that of its event
    detail = await desk.rest.call("GET", f"/v1/payments/{payment_id}", shop.tenant.headers)
    assert detail["version"] == succeeded["data"]["payment_state_version"] == 2


async def test_money_that_is_owed_is_settled_by_the_final_payout(desk, shop, back_end):
    """A part of it settles nothing, the rest settles all that it completes."""
    wallet = EvmTestWallet()
    await wait_faucet_booked(desk, wallet)
    first = await shop.create_paid_payment(wallet, USD)
    # the order of the two decides
    desk.clock.advance(1)
    second = await shop.create_paid_payment(wallet, USD)
    for payment_id in (first, second):
        await came(back_end, payment_id, *PAID)
    await shop.set_destination(f"erc20:{DOLLAR}", "0x" + "5c" * 20)
    net = PRICE - FEE
    requested_request = {"merchant_id": shop.tenant.merchant.id, "asset": f"{CHAIN}/erc20:{DOLLAR}"}
    created = {}
    async with open_operator(desk.service) as operator:
        for amount in (net + 5, net - 5):
            request = payout_pb2.CreatePayoutRequest(**requested_request, amount=str(amount))
            payout = await operator.call("CreatePayout", request)
            created[amount] = await _done(desk, operator, payout.payout_id)
            await came(back_end, first, *PAID, "payment.settled")
    for payment_id, amount in ((first, net + 5), (second, net - 5)):
        *_, settled = await came(back_end, payment_id, *PAID, "payment.settled")
        assert settled["data"]["settled"]["tx_id"] == created[amount]
        assert settled["data"]["settled"]["amount"]["value"] == str(net)
        assert back_end.orders[payment_id].got == net


async def _done(desk, operator, payout_id):
    """Return the transaction of a payout once it is final."""

    async def find_transaction():
        payouts = await operator.call("ListPayouts", payout_pb2.ListPayoutsRequest(all=True))
        (payout,) = [payout for payout in payouts.payouts if payout.payout_id == payout_id]
        return payout.tx_id if payout.status == payout_pb2.PAYOUT_STATUS_DONE else None

    return await wait_until(find_transaction)


@pytest.mark.parametrize("outcome", ["failed", "expired"])
@pytest.mark.parametrize("committed", [True, False])
async def test_an_end_has_processing_if_the_buyer_had_committed(
    desk, shop, back_end, outcome, committed
):
    created = await desk.rest.call(
        "POST", "/v1/payments", shop.tenant.headers, {"amount": USD, "referenceId": "order-7"}
    )
    payment_id = created["paymentId"]
    path = f"/v1/sandbox/payments/{payment_id}/simulate"
    for item in ("stall", outcome) if committed else (outcome,):
        await desk.rest.call("POST", path, shop.tenant.headers, {"outcome": item})
    types = ["payment.created", *(["payment.processing"] if committed else [])]
    *_, ended = await came(back_end, payment_id, *types, f"payment.{outcome}")
    assert (ended["data"]["processing"] is not None) is committed
    assert ended["data"]["reference_id"] == "order-7"
    assert back_end.orders[payment_id].state == outcome


async def test_a_cancelled_payment_has_its_reason(desk, shop, back_end):
    created = await desk.rest.call("POST", "/v1/payments", shop.tenant.headers, {"amount": USD})
    payment_id = created["paymentId"]
    await desk.rest.call("POST", f"/v1/payments/{payment_id}/cancel", shop.tenant.headers)
    _, cancelled = await came(back_end, payment_id, "payment.created", "payment.cancelled")
    reason = cancelled["data"]["cancelled"]["cancellation_reason"]
    assert reason == "cancelled_by_merchant"


async def test_refunds_are_not_sent_by_default_and_stand_in_later_snapshots(desk, shop, back_end):
    """The merchant is owed; a part is refunded to the buyer before the payout is final."""
    wallet = EvmTestWallet()
    await wait_faucet_booked(desk, wallet)
    payment_id = await shop.create_paid_payment(wallet, USD)
    await came(back_end, payment_id, *PAID)
    refund = await shop.refund(payment_id)
    other = await shop.create_paid_payment(wallet, USD)
    await came(back_end, other, *PAID)
    await shop.set_destination(f"erc20:{DOLLAR}", "0x" + "5d" * 20)
    request = {"merchant_id": shop.tenant.merchant.id, "asset": f"{CHAIN}/erc20:{DOLLAR}"}
    async with open_operator(desk.service) as operator:
        payout = await operator.call("CreatePayout", payout_pb2.CreatePayoutRequest(**request))
        await _done(desk, operator, payout.payout_id)
    await wait_until(lambda: back_end.orders[payment_id].state == "settled")
    *_, settled = [event for event in back_end.events if event["data"]["payment_id"] == payment_id]
    (existing,) = settled["data"]["refunds"]
    assert (existing["refund_id"], existing["status"]) == (refund["refundId"], "succeeded")
    assert existing["amount"]["value"] == str(PRICE)
    assert not any(event["type"].startswith("refund.") for event in back_end.events)
    # three events of the refund were counted, and not sent here
    assert settled["data"]["payment_state_version"] == 6


async def test_a_delivery_that_was_tampered_with_is_refused(desk, shop):
    back_end = MerchantBackEnd(secret="whsec_" + "A" * 44)
    async with serve_stub(back_end) as server:
        key = {"Api-Key": shop.tenant.headers["Api-Key"]}
        body = {"url": f"http://127.0.0.1:{server.port}/hooks"}
        created = await desk.rest.call("POST", PATH, key, body)
        await desk.rest.call("POST", "/v1/payments", shop.tenant.headers, {"amount": USD})
        await wait_until(lambda: back_end.faults)
        await desk.rest.call("DELETE", f"{PATH}/{created['endpoint']['id']}", key)
    assert back_end.faults[0] == "ValueError: no signature is right"
    assert back_end.events == []
