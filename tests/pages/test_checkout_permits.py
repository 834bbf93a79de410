"""A buyer whose token takes approvals by signature (EIP-2612) signs twice and sends nothing."""

from __future__ import annotations

from typing import Any

import pytest
import pytest_asyncio
from florin_sandbox.chains import evm as embedded
from florin_sandbox.devnet.genesis import DEVNET

from tests.support.browser import list_violations, open_visitor
from tests.support.injected_wallets import InjectedEvmWallet
from tests.support.receipts import decode_claims, get_receipt
from tests.support.service_harness import open_service
from tests.support.wallet_visits import assert_paid, get_pay_button, open_options

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

SIGN, SEND = "eth_signTypedData_v4", "eth_sendTransaction"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    """Yield a service whose test dollar is paid by Permit2, and takes signed approvals."""
    build_chain = embedded.build_chain

    def build_changed_chain(*args: Any) -> Any:
        chain = build_chain(*args)
        changes = {"method": "permit2", "approve_by_signature": True}
        assets = [
            asset.model_copy(update=changes) if asset.address == DEVNET.token.address else asset
            for asset in chain.assets
        ]
        return chain.model_copy(update={"assets": tuple(assets)})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embedded, "build_chain", build_changed_chain)
        async with open_service(tmp_path_factory.mktemp("permits"), pay_url="") as desk:
            yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def person(browser):
    async with open_visitor(browser, viewport={"width": 400, "height": 800}) as person:
        yield person


async def test_buyer_approves_and_pays_with_two_signatures(desk, person):
    purse = InjectedEvmWallet(desk.chain)
    for _ in range(2):
        payment_id, page = await open_options(desk, person, purse)
        signed, sent = await page.locator(".option").all_inner_texts()
        assert "No network fee" in signed
        assert "asks twice" in signed
        assert "No network fee" not in sent
        assert await list_violations(page) == []
        purse.methods.clear()
        await get_pay_button(page).click()
        await assert_paid(desk, page, payment_id)
        assert [method for method in purse.methods if method in {SIGN, SEND}] == [SIGN, SIGN]
    count = await desk.chain.ask("eth_getTransactionCount", purse.wallet.address, "latest")
    assert count == "0x0"


async def test_buyer_may_send_the_approval_instead(desk, person):
    purse = InjectedEvmWallet(desk.chain)
    payment_id, page = await open_options(desk, person, purse)
    await page.locator(".option").nth(1).get_by_role("radio").check()
    purse.methods.clear()
    await get_pay_button(page).click()
    await assert_paid(desk, page, payment_id)
    assert [method for method in purse.methods if method in {SIGN, SEND}] == [SEND, SIGN]


async def test_receipt_names_the_signed_approval_as_a_step_of_the_offer(desk, person):
    purse = InjectedEvmWallet(desk.chain)
    payment_id, page = await open_options(desk, person, purse)
    await get_pay_button(page).click()
    await assert_paid(desk, page, payment_id)
    assert "'permit 0'" in str(decode_claims(await get_receipt(desk, payment_id)))
