"""Buyers approve several transactions with one click (EIP-5792), in wallets of several kinds."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
import pytest_asyncio
from florin_sandbox.devnet.genesis import DEVNET
from playwright.async_api import expect

from tests.support.browser import list_violations, open_visitor
from tests.support.contract_accounts import BATCHES_WITHOUT_CARE
from tests.support.injected_wallets import NAME, InjectedBundlingWallet
from tests.support.service_harness import open_service
from tests.support.wallet_visits import EUR, USD, assert_paid, get_pay_button, open_options

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

SENT_ONE_BY_ONE = ["eth_sendTransaction"] * 2
UNKNOWN_BUNDLE = (5730, "Unknown bundle id")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    async with open_service(tmp_path_factory.mktemp("bundles"), pay_url="") as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def person(browser):
    async with open_visitor(browser, viewport={"width": 400, "height": 800}) as person:
        yield person


def list_sent(purse: InjectedBundlingWallet) -> list[str]:
    """Return the requests that move money, in order."""
    return [method for method in purse.methods if "send" in method or "sign" in method]


ATOMIC = {"status": "supported"}
CAPABLE: dict[str, dict[str, Any]] = {
    "supported": {},
    "after an upgrade": {"capabilities": {"0x7a69": {"atomic": {"status": "ready"}}}},
    "on all chains": {"capabilities": {"0x0": {"atomic": ATOMIC}, "0x1": {}}},
    "another spelling of the chain": {"capabilities": {"0x07A69": {"atomic": ATOMIC}}},
    "version 1 of the answers": {"is_old": True},
}


@pytest.mark.parametrize("changes", CAPABLE.values(), ids=CAPABLE)
async def test_capable_wallet_approves_and_pays_with_one_click(desk, person, changes):
    purse = await InjectedBundlingWallet.open(desk.chain, **changes)
    payment_id, page = await open_options(desk, person, purse)
    await get_pay_button(page).click()
    await assert_paid(desk, page, payment_id)
    assert list_sent(purse) == ["wallet_sendCalls"]
    (bundle,) = purse.bundles
    assert [call["to"] for call in bundle.pop("calls")] == [DEVNET.token.address, DEVNET.settler]
    assert bundle == {
        "version": "2.0.0",
        "from": purse.wallet.address,
        "chainId": "0x7a69",
        "atomicRequired": True,
    }
    detail = await desk.rest.detail(payment_id)
    receipt = await desk.chain.ask("eth_getTransactionReceipt", detail["info"]["txId"])
    assert receipt["to"].lower() == purse.wallet.address.lower()
    assert detail["buyer"]["accountCaip10"].lower() == purse.wallet.account.lower()


async def test_buyer_sees_that_the_payment_is_on_its_way_and_can_press_nothing(desk, person):
    purse = await InjectedBundlingWallet.open(desk.chain, sends=False, pending=10_000)
    _, page = await open_options(desk, person, purse, EUR)
    await get_pay_button(page).click()
    await expect(page.locator("#step")).to_contain_text("Your wallet sent the payment")
    assert await page.locator("#here").get_by_role("button").count() == 0
    assert await list_violations(page) == []
    purse.status, purse.pending = 500, 0
    await expect(page.locator("#step")).to_contain_text("Nothing was paid")


NOT_BUNDLED: dict[str, tuple[Any, ...]] = {
    "capability": (5700, "?"),
    "chain": (5710, "?"),
    "size": (5740, "?"),
    "upgrade declined": (5750, "User rejected the upgrade of the account"),
    "atomicity": (5760, "?"),
    "no such method": (-32601, "?"),
    "no such method by EIP-1193": (4200, "?"),
    "wrapped": (-32603, "User rejected", {"originalError": {"code": 5750}}),
}


@pytest.mark.parametrize("answer", NOT_BUNDLED.values(), ids=NOT_BUNDLED)
async def test_wallet_that_refuses_to_bundle_sends_one_by_one(desk, person, answer):
    purse = await InjectedBundlingWallet.open(desk.chain, refuses={"wallet_sendCalls": answer})
    payment_id, page = await open_options(desk, person, purse)
    await get_pay_button(page).click()
    await assert_paid(desk, page, payment_id)
    assert list_sent(purse) == ["wallet_sendCalls", *SENT_ONE_BY_ONE]


INCAPABLE: dict[str, dict[str, Any]] = {
    "unsupported": {"capabilities": {"0x7a69": {"atomic": {"status": "unsupported"}}}},
    "the chain overrides all chains": {
        "capabilities": {"0x7a69": {"atomic": {"status": "unsupported"}}, "0x0": {"atomic": ATOMIC}}
    },
    "another chain": {"capabilities": {"0x1": {"atomic": ATOMIC}}},
    "without all or nothing": {"capabilities": {"0x7a69": {"atomicBatch": {"supported": True}}}},
    "no object": {"capabilities": "supported"},
    "no such method": {"refuses": {"wallet_getCapabilities": (-32601, "?")}},
    "not authorized": {"refuses": {"wallet_getCapabilities": (4100, "?")}},
}


@pytest.mark.parametrize("changes", INCAPABLE.values(), ids=INCAPABLE)
async def test_incapable_wallet_sends_one_by_one(desk, person, changes):
    purse = await InjectedBundlingWallet.open(desk.chain, **changes)
    payment_id, page = await open_options(desk, person, purse)
    await get_pay_button(page).click()
    await assert_paid(desk, page, payment_id)
    assert list_sent(purse) == SENT_ONE_BY_ONE


async def test_wallet_that_never_answers_about_bundles_is_waited_for_two_seconds(desk, person):
    purse = await InjectedBundlingWallet.open(desk.chain, capabilities=None)
    await person.context.clock.install()
    payment_id, page = await open_options(desk, person, purse)
    await get_pay_button(page).click()
    await expect(page.locator("#step")).to_contain_text(re.compile(f"Confirm in .{NAME}"))
    await page.clock.run_for(1500)
    assert list_sent(purse) == []
    await page.clock.run_for(1000)
    await assert_paid(desk, page, payment_id)
    assert list_sent(purse) == SENT_ONE_BY_ONE


DECLINED: dict[str, tuple[Any, ...]] = {
    "code": (4001, "Nope"),
    "text": (-32603, "MetaMask: User rejected the request."),
    "before a reason that allows other ways": (4001, "Nope", {"cause": {"code": 5750}}),
}


@pytest.mark.parametrize("answer", DECLINED.values(), ids=DECLINED)
async def test_declined_bundle_is_not_sent_in_another_way(desk, person, answer):
    purse = await InjectedBundlingWallet.open(desk.chain, refuses={"wallet_sendCalls": answer})
    payment_id, page = await open_options(desk, person, purse)
    await get_pay_button(page).click()
    await expect(page.locator("#step")).to_contain_text("You declined in your wallet")
    assert list_sent(purse) == ["wallet_sendCalls"]
    assert (await desk.rest.status(payment_id))["status"] == "requires_action"
    purse.refuses.clear()
    await page.get_by_role("button", name="Try again").click()
    await get_pay_button(page).click()
    await assert_paid(desk, page, payment_id)


@pytest.mark.parametrize("status", [400, 500])
async def test_bundle_that_is_not_carried_out_can_be_sent_again_by_the_buyer_alone(
    desk, person, status
):
    purse = await InjectedBundlingWallet.open(desk.chain, status=status)
    payment_id, page = await open_options(desk, person, purse)
    await get_pay_button(page).click()
    await expect(page.locator("#step")).to_contain_text("Nothing was paid")
    assert list_sent(purse) == ["wallet_sendCalls"]
    purse.status = 200
    await page.get_by_role("button", name="Try again").click()
    await get_pay_button(page).click()
    await assert_paid(desk, page, payment_id)
    assert list_sent(purse) == ["wallet_sendCalls"] * 2


async def test_failing_answers_about_a_bundle_are_waited_out(desk, person):
    purse = await InjectedBundlingWallet.open(desk.chain, status=500)
    purse.refuses["wallet_getCallsStatus"] = (-32603, "later")
    _, page = await open_options(desk, person, purse)
    await get_pay_button(page).click()
    await expect(page.locator("#step")).to_contain_text("Your wallet sent the payment")
    purse.refuses.clear()
    await expect(page.locator("#step")).to_contain_text("Nothing was paid")
    assert list_sent(purse) == ["wallet_sendCalls"]


async def test_forgotten_bundle_is_never_sent_again(desk, person):
    purse = await InjectedBundlingWallet.open(
        desk.chain, status=500, refuses={"wallet_getCallsStatus": UNKNOWN_BUNDLE}
    )
    payment_id, page = await open_options(desk, person, purse)
    await get_pay_button(page).click()
    await expect(page.locator("#step")).to_contain_text("Do not send another one")
    assert await page.locator("#here").get_by_role("button").all_inner_texts() == ["Look again"]
    await page.get_by_role("button", name="Look again").click()
    await expect(page.locator("#step")).to_contain_text("Do not send another one")
    # a page that is loaded again follows the same bundle
    await page.reload()
    await page.get_by_role("button", name="Connect a wallet").click()
    await page.get_by_role("button", name=NAME).click()
    await get_pay_button(page).click()
    await expect(page.locator("#step")).to_contain_text("Do not send another one")
    assert list_sent(purse) == ["wallet_sendCalls"]
    # in the end the wallet reports what became of it
    purse.refuses.clear()
    await page.get_by_role("button", name="Look again").click()
    await expect(page.locator("#step")).to_contain_text("Nothing was paid")
    assert (await desk.rest.status(payment_id))["status"] == "requires_action"


async def test_forgotten_bundle_that_pays_is_shown_as_paid(desk, person):
    purse = await InjectedBundlingWallet.open(
        desk.chain, refuses={"wallet_getCallsStatus": UNKNOWN_BUNDLE}
    )
    payment_id, page = await open_options(desk, person, purse)
    await get_pay_button(page).click()
    await assert_paid(desk, page, payment_id)
    assert list_sent(purse) == ["wallet_sendCalls"]


async def test_bundle_that_is_approved_after_a_cancel_is_followed_and_not_repeated(desk, person):
    purse = await InjectedBundlingWallet.open(desk.chain, released=asyncio.Event(), status=500)
    payment_id, page = await open_options(desk, person, purse)
    await get_pay_button(page).click()
    await expect(page.locator("#step")).to_contain_text(re.compile(f"Confirm in .{NAME}"))
    await page.get_by_role("button", name="Cancel").click()
    await expect(get_pay_button(page)).to_be_visible()
    purse.released.set()
    # the page has the id before it answers this
    await page.evaluate("() => new Promise((done) => setTimeout(done, 200))")
    await get_pay_button(page).click()
    await expect(page.locator("#step")).to_contain_text("Nothing was paid")
    assert list_sent(purse) == ["wallet_sendCalls"]
    assert (await desk.rest.status(payment_id))["status"] == "requires_action"


async def test_wallet_that_reports_the_bundle_of_another_payment_pays_nothing(desk, person):
    purse = await InjectedBundlingWallet.open(desk.chain)
    first_id, page = await open_options(desk, person, purse)
    await get_pay_button(page).click()
    await assert_paid(desk, page, first_id)
    paid_hash = (await desk.rest.status(first_id))["info"]["txId"]
    liar = await InjectedBundlingWallet.open(desk.chain, reported_hash=paid_hash, sends=False)
    payment_id, page = await open_options(desk, person, liar)
    await get_pay_button(page).click()
    await expect(page.locator("#step")).to_contain_text("Do not send another one")
    assert re.fullmatch("Failed to load resource.* 400 .*", person.complaints.pop())
    assert list_sent(liar) == ["wallet_sendCalls"]
    assert (await desk.rest.status(payment_id))["status"] == "requires_action"


async def test_bundle_whose_payment_failed_inside_can_be_sent_again_after_a_reload(desk, person):
    purse = await InjectedBundlingWallet.open(desk.chain, BATCHES_WITHOUT_CARE)
    payment_id, page = await open_options(desk, person, purse)
    held = await desk.chain.balance(purse.wallet.address)
    await purse.wallet.transact(
        desk.chain,
        gas=100_000,
        to=bytes.fromhex(DEVNET.token.address[2:]),
        value=0,
        data=bytes.fromhex("a9059cbb" + f"{1:064x}" + f"{held:064x}"),
    )
    await get_pay_button(page).click()
    await expect(page.locator("#step")).to_contain_text("Do not send another one")
    assert re.fullmatch("Failed to load resource.* 400 .*", person.complaints.pop())
    await desk.chain.fund(purse.wallet.address)
    await page.reload()
    await page.get_by_role("button", name="Connect a wallet").click()
    await page.get_by_role("button", name=NAME).click()
    await get_pay_button(page).click()
    await assert_paid(desk, page, payment_id)
    # the approval in the bundle succeeded, so one call is left
    assert list_sent(purse) == ["wallet_sendCalls", "eth_sendTransaction"]


async def test_nothing_but_the_service_is_asked_while_a_bundle_is_sent(desk, person):
    purse = await InjectedBundlingWallet.open(desk.chain)
    payment_id, page = await open_options(desk, person, purse, USD)
    urls: list[str] = []
    page.on("request", lambda request: urls.append(request.url))
    await get_pay_button(page).click()
    await assert_paid(desk, page, payment_id)
    assert all(url.startswith((desk.rest.base, "data:")) for url in urls)
