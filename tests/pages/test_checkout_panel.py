"""The test panel: anyone with the link controls a test payment, and no live one."""

from __future__ import annotations

import re

import pytest
import pytest_asyncio
from florin_sandbox.devnet.solana import SOLANA_DEVNET

from tests.support.page_texts import get_headers, get_text
from tests.support.service_harness import ORDER, PAY_URL, open_service
from tests.support.solana import INSTANT_SOLANA
from tests.support.until import wait_until

pytestmark = pytest.mark.asyncio(loop_scope="module")

EVM = "eip155:31337"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    async with open_service(tmp_path_factory.mktemp("panel"), solana=INSTANT_SOLANA) as desk:
        yield desk


async def pressed(desk, payment_id: str, form: str, **headers: str):
    """Return the answer to a button of the panel, without following redirects."""
    url = f"{desk.rest.base}/{payment_id}/test?lang=de"
    sent = {**FORM, "Origin": desk.rest.base, **headers}
    async with desk.session.post(url, data=form, headers=sent, allow_redirects=False) as answer:
        return answer.status, get_headers(answer), await answer.text()


async def created(desk) -> str:
    return (await desk.rest.create(ORDER))["paymentId"]


@pytest.mark.parametrize("chain", [EVM, SOLANA_DEVNET.chain_id])
async def test_the_test_wallet_pays_for_real(desk, chain):
    payment_id = await created(desk)
    status, headers, _ = await pressed(desk, payment_id, f"pay={chain}")
    assert (status, headers["location"]) == (303, f"/{payment_id}?lang=de")
    assert (await desk.wait_ended(payment_id))["status"] == "succeeded"
    detail = await desk.rest.detail(payment_id)
    assert detail["buyer"]["accountCaip10"].startswith(chain)
    # by a transaction, which the receipt names
    tx_id = detail["info"]["txId"]
    assert not tx_id.startswith("test:")
    assert f"<code>{tx_id}</code>" in (await desk.ask("GET", f"/{payment_id}")).text


@pytest.mark.parametrize("outcome", ["succeeded", "failed", "expired", "cancelled"])
async def test_every_outcome_can_be_had(desk, outcome):
    payment_id = await created(desk)
    assert (await pressed(desk, payment_id, f"outcome={outcome}"))[0] == 303
    assert (await desk.rest.status(payment_id))["status"] == outcome


async def test_stalled_test_payment_can_be_failed(desk):
    payment_id = await created(desk)
    assert (await pressed(desk, payment_id, "outcome=stall"))[0] == 303
    assert (await desk.rest.status(payment_id))["status"] == "processing"
    assert (await pressed(desk, payment_id, "outcome=cancelled"))[0] == 200
    assert (await pressed(desk, payment_id, "outcome=failed"))[0] == 303
    assert (await desk.rest.status(payment_id))["status"] == "failed"


async def test_advanced_test_clock_applies_to_all_payments(desk):
    payment_id, before = await created(desk), desk.now
    assert (await pressed(desk, payment_id, "seconds=3600"))[0] == 303
    assert desk.now == before + 3600
    assert (await desk.rest.status(payment_id))["status"] == "expired"


@pytest.mark.parametrize(
    "form",
    [
        *("", "outcome=refunded", "outcome=", "pay=eip155:1", "pay=", "seconds=1", "seconds=-60"),
        *("seconds=99999999999999999999", "x=1&" * 50, "%ff", "outcome=%00"),
    ],
)
async def test_invalid_test_panel_form_is_refused_in_the_page_language(desk, form):
    payment_id, before = await created(desk), desk.now
    status, _, text = await pressed(desk, payment_id, form)
    assert status == 200
    # in the page's language: the API's texts for programs are no texts of a page
    assert "Das hat nicht funktioniert" in get_text(text)
    assert not re.search("Nothing was asked|Unknown|Payment is|Invalid", get_text(text))
    assert (desk.now, (await desk.rest.status(payment_id))["status"]) == (before, "requires_action")


async def test_ended_test_payment_has_no_panel(desk):
    payment_id = await created(desk)
    await desk.rest.simulate(payment_id, "succeeded")
    status, _, text = await pressed(desk, payment_id, "outcome=failed")
    assert status == 404
    assert "payment_not_found" in text
    assert "Test tools" not in (await desk.ask("GET", f"/{payment_id}")).text


async def test_live_payments_have_none_of_it(desk):
    tenant = await desk.tenant(live=True)
    live = await desk.rest.call("POST", "/v1/payments", tenant.headers, ORDER)
    payment_id = live["paymentId"]
    page = (await desk.ask("GET", f"/{payment_id}")).text
    assert not re.search("Test tools|<form|drawer", page)
    before = desk.now
    for form in ("outcome=succeeded", f"pay={EVM}", "seconds=3600"):
        assert (await pressed(desk, payment_id, form))[0] == 404
    detail = await desk.rest.call("GET", f"/v1/payments/{payment_id}", tenant.headers)
    assert (detail["status"], desk.now) == ("requires_action", before)


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", "Origin": "null"},
        # of browsers that know no Sec-Fetch-Site
        {"Origin": "https://evil.example"},
        {"Origin": "https://pay.florin.example.evil.example"},
        {"Origin": "http://["},
        {"Origin": "null"},
        {"Origin": ""},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/json"},
    ],
)
async def test_no_other_site_can_have_a_browser_do_it(desk, headers):
    payment_id = await created(desk)
    status, _, _ = await pressed(desk, payment_id, "outcome=failed", **headers)
    assert status == 403
    assert (await desk.rest.status(payment_id))["status"] == "requires_action"


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "same-origin", "Origin": ""},
        {"Sec-Fetch-Site": "same-origin", "Origin": "null"},
        {"Origin": PAY_URL},
    ],
)
async def test_forms_of_this_site_drive_a_payment_in_every_browser(desk, headers):
    payment_id = await created(desk)
    assert (await pressed(desk, payment_id, "outcome=failed", **headers))[0] == 303


async def test_an_operator_can_do_without_it(tmp_path):
    async with open_service(tmp_path, checkout={"test_panel": False}) as desk:
        payment_id = await created(desk)
        assert f"/{payment_id}/test" not in (await desk.ask("GET", f"/{payment_id}")).text
        assert (await pressed(desk, payment_id, "outcome=failed"))[0] == 404


async def test_blocks_on_top_of_a_payment_are_counted(tmp_path):
    async with open_service(tmp_path, confirmations=3) as desk:
        offer = await desk.offer()
        await desk.confirm(offer)

        async def seen() -> dict[str, int] | None:
            body = (await desk.ask("GET", f"/{offer.payment_id}/state")).body
            return body.get("confirmations")

        await wait_until(seen, {"seen": 1, "needed": 3})
        page = (await desk.ask("GET", f"/{offer.payment_id}")).text
        assert "Confirmations: 1 of 3" in get_text(page)
        state = (await desk.ask("GET", f"/{offer.payment_id}/state")).body
        (rail,) = desk.service.app.rails.values()
        assert state["usualS"] == rail.eta_s
        assert "This usually takes" in get_text(page)
        await desk.chain.mine()
        await wait_until(seen, {"seen": 2, "needed": 3})
        await desk.chain.mine()
        assert (await desk.wait_final(offer.payment_id))["status"] == "succeeded"
        state = (await desk.ask("GET", f"/{offer.payment_id}/state")).body
        assert "usualS" not in state
