"""Buyers pay with a wallet of their browser; wallets decline, fail and answer wrongly."""

from __future__ import annotations

import asyncio
import re

import pytest
import pytest_asyncio
from eth_account import Account
from florin_sandbox.devnet.genesis import DEVNET
from playwright.async_api import expect

from tests.support.browser import list_violations, open_visitor
from tests.support.contract_accounts import (
    PASSKEY_OWNED,
    make_approval,
    make_contract_account,
    sign_by_passkey,
)
from tests.support.injected_wallets import (
    NAME,
    ContractAccountSigner,
    InjectedContractWallet,
    InjectedEvmWallet,
    InjectedSolanaWallet,
    make_contract_signer,
)
from tests.support.page_texts import HOSTILE_TEXT
from tests.support.service_harness import open_service
from tests.support.solana import COIN, INSTANT_SOLANA, SolanaNodeClient
from tests.support.wallet import EvmTestWallet
from tests.support.wallet_visits import (
    EUR,
    GBP,
    USD,
    assert_paid,
    find_wallet,
    get_pay_button,
    open_options,
)

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

ETHER = f"eip155:{DEVNET.chain_id}/slip44:60"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    home = tmp_path_factory.mktemp("wallets")
    rates = {ETHER: {"GBP": "2500.00"}, COIN: {"GBP": "120.00"}}
    async with open_service(home, pay_url="", rates=rates, solana=INSTANT_SOLANA) as desk:
        yield desk


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def public_desk(tmp_path_factory):
    """Yield a service whose chain has public addresses for wallets."""
    public = {
        "nodes": {"eip155:31337": "https://node.example/devnet"},
        "explorers": {"eip155:31337": "https://explorer.example/tx/{tx}"},
    }
    home = tmp_path_factory.mktemp("public")
    rates = {ETHER: {"GBP": "2500.00"}}
    async with open_service(home, pay_url="", rates=rates, checkout=public) as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def person(browser):
    async with open_visitor(browser, viewport={"width": 400, "height": 800}) as person:
        yield person


@pytest.mark.parametrize(
    ("amount", "expected_texts", "expected_methods"),
    [
        (USD, ["12.50 tUSD", "No network fee"], ["eth_signTypedData_v4"]),
        (EUR, ["9.90 tEUR", "asks twice"], ["eth_sendTransaction", "eth_signTypedData_v4"]),
        (GBP, ["0.002", "shows the network fee"], ["eth_sendTransaction"]),
    ],
    ids=["eip3009", "permit2", "coin"],
)
async def test_a_wallet_pays_with_each_kind_of_option(
    desk, person, amount, expected_texts, expected_methods
):
    purse = InjectedEvmWallet(desk.chain)
    payment_id, page = await open_options(desk, person, purse, amount)
    (choice,) = await page.locator(".option").all_inner_texts()
    for text in (*expected_texts, "Balance", "Florin Devnet"):
        assert text in choice.replace("\u2068", "").replace("\u2069", "")
    assert await list_violations(page) == []
    purse.methods.clear()
    await get_pay_button(page).click()
    await assert_paid(desk, page, payment_id)
    assert [
        method for method in purse.methods if "sign" in method or "send" in method
    ] == expected_methods
    detail = await desk.rest.detail(payment_id)
    assert detail["buyer"]["accountCaip10"].lower() == purse.wallet.account.lower()
    # the chain may report a coin payment before the page does
    assert detail["buyer"]["accountProviderName"] in {"Checkout page", "unknown"}


@pytest.mark.parametrize(
    ("amount", "symbol"),
    [(USD, "tUSD"), (USD, "tUSD22"), (GBP, "tSOL")],
    ids=["token", "token_2022", "coin"],
)
async def test_a_wallet_of_solana_pays_with_each_kind_of_option(desk, person, amount, symbol):
    """The wallet signs, and sends nothing itself."""
    purse = InjectedSolanaWallet()
    payment_id, page = await open_options(desk, person, purse, amount)
    option = page.locator(".option", has=page.get_by_text(symbol, exact=True))
    await option.get_by_role("radio").check()
    assert "No network fee" in await option.inner_text()
    await get_pay_button(page).click()
    await assert_paid(desk, page, payment_id)
    detail = await desk.rest.detail(payment_id)
    assert detail["buyer"]["accountCaip10"] == purse.wallet.account
    assert detail["info"]["optionAmount"]["display"]["assetSymbol"] == symbol


async def test_an_account_that_does_not_exist_yet_pays_and_pays_again(desk, person):
    account = make_contract_account(Account.create())
    purse = InjectedContractWallet(desk.chain, make_contract_signer(account))
    for sign in (account.wrap, account.sign):
        # the second time the account exists, and needs no creation data
        purse.wallet.signs = sign
        payment_id, page = await open_options(desk, person, purse)
        await get_pay_button(page).click()
        await assert_paid(desk, page, payment_id)
        assert await desk.chain.ask("eth_getCode", account.address, "latest") != "0x"
        buyer = (await desk.rest.detail(payment_id))["buyer"]
        assert buyer["accountCaip10"].lower() == purse.wallet.account.lower()


async def test_an_account_that_approves_as_it_is_created_pays_by_permit2(desk, person):
    earlier_calls = [make_approval(DEVNET.euro.address, DEVNET.permit2, 9_900_000)]
    purse = InjectedContractWallet(
        desk.chain,
        make_contract_signer(make_contract_account(Account.create(), calls=earlier_calls)),
    )
    payment_id, page = await open_options(desk, person, purse, EUR)
    await get_pay_button(page).click()
    await assert_paid(desk, page, payment_id)


async def test_account_with_an_uncheckable_signature_is_offered_transactions(desk, person):
    maker = EvmTestWallet()
    await desk.chain.fund(maker.address)
    created = await maker.deploy(desk.chain, bytes.fromhex(PASSKEY_OWNED))
    address = created.rpartition(":")[2]
    # its code takes no coin
    tokens = {"accounts": [address], "nativeWei": "0x0", "tokenUnits": hex(10**9)}
    await desk.chain.ask("florin_faucet", tokens)
    purse = InjectedContractWallet(desk.chain, ContractAccountSigner(address, sign_by_passkey))
    purse.refuses["eth_sendTransaction"] = (4001, "User rejected")
    _, page = await open_options(desk, person, purse)
    assert "network fee" in (await page.locator(".option").first.inner_text()).lower()
    await get_pay_button(page).click()
    await expect(page.locator("#step")).to_contain_text("You declined in your wallet")
    assert "eth_sendTransaction" in purse.methods
    assert "eth_signTypedData_v4" not in purse.methods


async def test_an_account_whose_code_does_not_accept_a_signature_pays_nothing(desk, person):
    account, stranger = make_contract_account(Account.create()), Account.create()
    purse = InjectedContractWallet(
        desk.chain, ContractAccountSigner(account.address, account.with_owner(stranger).wrap)
    )
    payment_id, page = await open_options(desk, person, purse)
    await get_pay_button(page).click()
    await expect(page.locator("#step")).to_contain_text("does not match this payment")
    assert (await desk.rest.status(payment_id))["status"] == "requires_action"
    assert re.fullmatch("Failed to load resource.* 400 .*", person.complaints.pop())


@pytest.mark.parametrize("amount", [EUR, GBP], ids=["permit2", "coin"])
async def test_rejected_transaction_is_not_requested_again_automatically(desk, person, amount):
    purse = InjectedEvmWallet(desk.chain, refuses={"eth_sendTransaction": (4001, "User rejected")})
    await person.context.clock.install()
    payment_id, page = await open_options(desk, person, purse, amount)
    await get_pay_button(page).click()
    await expect(page.locator("#step")).to_contain_text("You declined in your wallet")
    # the page has the remaining time for automatic steps
    await page.clock.run_for(600_000)
    await page.evaluate("() => window.purseChanged()")
    await expect(get_pay_button(page)).to_be_visible()
    await page.clock.run_for(60_000)
    assert purse.methods.count("eth_sendTransaction") == 1
    assert "eth_signTypedData_v4" not in purse.methods
    assert (await desk.rest.status(payment_id))["status"] == "requires_action"


async def test_page_is_locked_while_the_wallet_is_asked_and_cancel_drops_its_answer(desk, person):
    purse = InjectedEvmWallet(desk.chain, released=asyncio.Event())
    payment_id, page = await open_options(desk, person, purse)
    await get_pay_button(page).click()
    step = page.locator("#step")
    await expect(step).to_contain_text(re.compile(f"Confirm in .{NAME}"))
    await expect(step).to_have_role("status")
    prompt = page.locator("#here")
    await expect(prompt).to_contain_text("You pay")
    await expect(prompt).to_contain_text("12.50 tUSD")
    await expect(prompt).to_contain_text("Florin Devnet")
    # nothing else can be pressed
    assert await prompt.get_by_role("button").all_inner_texts() == ["Cancel"]
    assert await list_violations(page) == []
    confirms: list[str] = []
    page.on("request", lambda request: confirms.append(request.url.rpartition("/")[2]))
    await page.get_by_role("button", name="Cancel").click()
    await expect(get_pay_button(page)).to_be_visible()
    purse.released.set()
    # the page has the signature before it answers this
    await page.evaluate("() => new Promise((done) => setTimeout(done, 200))")
    assert purse.methods.count("eth_signTypedData_v4") == 1
    assert "confirm" not in confirms
    assert (await desk.rest.status(payment_id))["status"] == "requires_action"
    await get_pay_button(page).click()
    await assert_paid(desk, page, payment_id)
    assert confirms.count("confirm") == 1


async def test_buyer_that_declines_may_try_again(desk, person):
    purse = InjectedEvmWallet(desk.chain, refuses={"eth_signTypedData_v4": (4001, "User rejected")})
    payment_id, page = await open_options(desk, person, purse)
    await get_pay_button(page).click()
    await expect(page.locator("#step")).to_contain_text("You declined in your wallet")
    assert (await desk.rest.status(payment_id))["status"] == "requires_action"
    purse.refuses.clear()
    await page.get_by_role("button", name="Try again").click()
    await get_pay_button(page).click()
    await assert_paid(desk, page, payment_id)


async def test_buyer_that_declines_on_solana_gets_the_same_message(desk, person):
    purse = InjectedSolanaWallet(refuses="User rejected the request.")
    payment_id, page = await open_options(desk, person, purse)
    await get_pay_button(page).first.click()
    await expect(page.locator("#step")).to_contain_text("You declined in your wallet")
    assert (await desk.rest.status(payment_id))["status"] == "requires_action"


async def test_answer_that_is_too_late_for_solana_is_no_change_of_price(desk, person):
    node = SolanaNodeClient(desk.session, desk.env["FLORIN_SOLANA_RPC_URL"])
    seen = []

    async def lapse() -> None:
        seen.append(await page.locator("#step").inner_text())
        await node.fault("slots", slots=151)

    purse = InjectedSolanaWallet(delay=lapse)
    payment_id, page = await open_options(desk, person, purse)
    await get_pay_button(page).first.click()
    await expect(page.locator("#step")).to_contain_text("answered too late for the network")
    assert "within 30 seconds" in seen[0]
    assert (await desk.rest.status(payment_id))["status"] == "requires_action"
    assert re.fullmatch("Failed to load resource.* 409 .*", person.complaints.pop())
    purse.delay = None
    await page.get_by_role("button", name="Try again").click()
    await get_pay_button(page).first.click()
    await assert_paid(desk, page, payment_id)


async def test_wallet_on_another_chain_is_prompted_to_switch(desk, person):
    purse = InjectedEvmWallet(desk.chain, number=1)
    payment_id, page = await open_options(desk, person, purse)
    # it reports no balance on a chain that it is not on
    assert "Balance" not in await page.locator(".option").inner_text()
    purse.refuses["wallet_switchEthereumChain"] = (4200, "Unsupported method")
    await get_pay_button(page).click()
    await expect(page.locator("#step")).to_contain_text("uses a different network")
    assert "eth_signTypedData_v4" not in purse.methods
    purse.refuses.clear()
    await page.get_by_role("button", name="Try again").click()
    await get_pay_button(page).click()
    await assert_paid(desk, page, payment_id)
    assert purse.number == 31337


# wallets' errors for unknown chains: plain, or inside an error of their own
UNKNOWN = {
    "plain": (4902, "Unrecognized chain"),
    "wrapped": (-32603, "Internal", {"originalError": {"code": 4902, "message": "?"}}),
    "text": (-32603, 'Unrecognized chain ID "0x7a69". Try wallet_addEthereumChain first.'),
}


@pytest.mark.parametrize("unknown", UNKNOWN.values(), ids=UNKNOWN)
async def test_unknown_chain_is_added_with_public_facts_and_pays(public_desk, person, unknown):
    desk = public_desk
    purse = InjectedEvmWallet(desk.chain, number=1, knows={1}, unknown=unknown)
    payment_id, page = await open_options(desk, person, purse)
    await get_pay_button(page).click()
    await assert_paid(desk, page, payment_id)
    assert purse.added == [
        {
            "chainId": "0x7a69",
            "chainName": "Florin Devnet",
            "nativeCurrency": {"name": "Test Ether", "symbol": "tETH", "decimals": 18},
            "rpcUrls": ["https://node.example/devnet"],
            "blockExplorerUrls": ["https://explorer.example"],
        }
    ]


async def test_unknown_chain_without_public_node_is_explained_to_the_buyer(desk, person):
    purse = InjectedEvmWallet(desk.chain, number=1, knows={1}, unknown=UNKNOWN["wrapped"])
    payment_id, page = await open_options(desk, person, purse)
    await get_pay_button(page).click()
    await expect(page.locator("#step")).to_contain_text("this page cannot add it for you")
    await expect(page.locator("#step")).to_contain_text("31337")
    assert "wallet_addEthereumChain" not in purse.methods
    assert "eth_signTypedData_v4" not in purse.methods
    assert (await desk.rest.status(payment_id))["status"] == "requires_action"


async def test_buyer_that_declines_to_add_a_chain_gets_the_declined_message(public_desk, person):
    purse = InjectedEvmWallet(public_desk.chain, number=1, knows={1})
    purse.refuses["wallet_addEthereumChain"] = (4001, "User rejected")
    _, page = await open_options(public_desk, person, purse)
    await get_pay_button(page).click()
    await expect(page.locator("#step")).to_contain_text("You declined in your wallet")


@pytest.mark.parametrize("form", [hex, str, int, lambda number: f"0x{number:08X}"])
async def test_chain_id_in_any_form_is_read(desk, person, form):
    purse = InjectedEvmWallet(desk.chain, chain_form=form)
    payment_id, page = await open_options(desk, person, purse)
    await get_pay_button(page).click()
    await assert_paid(desk, page, payment_id)
    assert "wallet_switchEthereumChain" not in purse.methods


async def test_switch_that_takes_a_while_is_waited_for(desk, person):
    purse = InjectedEvmWallet(desk.chain, number=1, lag=4)
    payment_id, page = await open_options(desk, person, purse)
    await get_pay_button(page).click()
    await assert_paid(desk, page, payment_id)
    assert purse.methods.count("wallet_switchEthereumChain") == 1


async def test_switch_that_never_happens_is_not_waited_for_without_end(desk, person):
    purse = InjectedEvmWallet(desk.chain, number=1, lag=10_000)
    await person.context.clock.install()
    _, page = await open_options(desk, person, purse)
    await get_pay_button(page).click()
    for _ in range(60):
        await page.clock.run_for(250)
    await expect(page.locator("#step")).to_contain_text("uses a different network")
    assert "eth_signTypedData_v4" not in purse.methods


DECLINED = {
    "eip1193": (4001, "Nope"),
    "text_code": ("4001", "Nope"),
    "ethers": ("ACTION_REJECTED", "ethers-user-denied"),
    "walletconnect": (5000, "Nope"),
    "wrapped": (-32603, "Internal JSON-RPC error.", {"originalError": {"code": 4001}}),
    "internal": (-32603, "MetaMask Tx Signature: User denied transaction signature."),
    "passive": (-32000, "Request was cancelled by the user"),
}


@pytest.mark.parametrize("answer", DECLINED.values(), ids=DECLINED)
async def test_every_form_of_declined_shows_the_same_state(desk, person, answer):
    purse = InjectedEvmWallet(desk.chain, refuses={"eth_signTypedData_v4": answer})
    _, page = await open_options(desk, person, purse)
    await get_pay_button(page).click()
    await expect(page.locator("#step")).to_contain_text("You declined in your wallet")
    await expect(page.get_by_role("button", name="Try again")).to_be_visible()


async def test_error_of_a_node_is_not_called_declined(desk, person):
    refused = {"eth_signTypedData_v4": (-32603, "transaction rejected by the pool")}
    _, page = await open_options(desk, person, InjectedEvmWallet(desk.chain, refuses=refused))
    await get_pay_button(page).click()
    await expect(page.locator("#step")).to_contain_text("rejected by the pool")


async def test_a_wallet_that_has_another_account_by_now_signs_nothing(desk, person):
    purse = InjectedEvmWallet(desk.chain)
    payment_id, page = await open_options(desk, person, purse)
    purse.wallet = EvmTestWallet()
    await get_pay_button(page).click()
    await expect(page.locator("#step")).to_contain_text("uses a different account")
    assert "eth_signTypedData_v4" not in purse.methods
    await page.get_by_role("button", name="Try again").click()
    await get_pay_button(page).click()
    await assert_paid(desk, page, payment_id)


async def test_wallet_that_changes_its_account_gets_options_of_the_new_account(desk, person):
    purse = InjectedEvmWallet(desk.chain)
    _, page = await open_options(desk, person, purse)
    before = await page.locator(".account").inner_text()
    purse.wallet = EvmTestWallet()
    await page.evaluate("() => window.purseChanged()")
    await expect(page.locator("#step")).to_contain_text("uses a different account")
    await expect(get_pay_button(page)).to_be_visible()
    assert await page.locator(".account").inner_text() != before


async def test_a_wallet_that_lies_about_its_account_pays_nothing(desk, person):
    purse = InjectedEvmWallet(desk.chain, signer=EvmTestWallet())
    payment_id, page = await open_options(desk, person, purse)
    person.complaints.clear()
    await get_pay_button(page).click()
    await expect(page.locator("#step")).to_contain_text("does not match this payment")
    assert (await desk.rest.status(payment_id))["status"] == "requires_action"
    assert re.fullmatch("Failed to load resource.* 400 .*", person.complaints.pop())


async def test_an_answer_that_comes_too_late_is_not_used(desk, person):
    purse = InjectedEvmWallet(desk.chain)
    payment_id, page = await open_options(desk, person, purse)
    sign = purse.wallet.sign

    def slowly(typed_data):
        desk.clock.advance(1000)
        return sign(typed_data)

    purse.wallet.sign = slowly
    await get_pay_button(page).click()
    await expect(page.get_by_role("heading", name="Payment expired")).to_be_visible()
    assert (await desk.rest.status(payment_id))["status"] == "expired"
    # the answer may arrive before or after the page learns of the end
    person.complaints[:] = [
        complaint for complaint in person.complaints if " 410 " not in complaint
    ]


async def test_signature_is_reused_after_a_lost_connection(desk, person):
    purse = InjectedEvmWallet(desk.chain)
    payment_id, page = await open_options(desk, person, purse)
    await page.route("**/confirm", lambda route: route.abort())
    await get_pay_button(page).click()
    await expect(page.locator("#step")).to_contain_text("payment service cannot be reached")
    assert "ERR_FAILED" in person.complaints.pop()
    await page.unroute("**/confirm")
    await page.get_by_role("button", name="Try again").click()
    await assert_paid(desk, page, payment_id)
    assert purse.methods.count("eth_signTypedData_v4") == 1


# a wallet that answers nothing, by EIP-6963
ANNOUNCE = """(name) => {
  const provider = {request: () => new Promise(() => {})};
  const detail = {info: {name, icon: ""}, provider};
  addEventListener("eip6963:requestProvider", () =>
    dispatchEvent(new CustomEvent("eip6963:announceProvider", {detail})));
}"""


async def test_without_a_wallet_there_are_other_ways(desk, person):
    payment_id = (await desk.rest.create({"amount": USD, "referenceId": "bare"}))["paymentId"]
    page = await person.open(f"{desk.rest.base}/{payment_id}")
    await page.get_by_role("button", name="Connect a wallet").click()
    await expect(page.locator("#step")).to_contain_text("This browser has no wallet")
    assert await list_violations(page) == []
    assert await page.get_by_role("link", name=re.compile("^Get ")).all_inner_texts() == [
        "Get MetaMask",
        "Get Phantom",
        "Get Rabby",
    ]
    # a wallet that is installed or unlocked meanwhile is found without a reload
    await page.evaluate(ANNOUNCE, NAME)
    await page.get_by_role("button", name="Look again").click()
    await expect(page.get_by_role("button", name=NAME)).to_be_visible()
    await page.get_by_role("button", name="Other ways to pay").click()
    await expect(page.get_by_role("button", name="Connect a wallet")).to_be_focused()
    await expect(page.locator("#code .qr svg")).to_be_visible()


async def test_hostile_wallet_text_is_shown_as_text(desk, person):
    purse = InjectedEvmWallet(
        desk.chain,
        name=HOSTILE_TEXT,
        icon="javascript:alert(1)",
        refuses={"eth_requestAccounts": (-1, HOSTILE_TEXT)},
    )
    _, page = await find_wallet(desk, person, purse)
    await expect(page.locator("#wallets img")).to_have_count(0)
    await page.get_by_role("button", name="alert(1)").click()
    await expect(page.locator("#step")).to_contain_text("<img src=x onerror='alert(2)'>")
    assert await page.locator("#here script, #here img").count() == 0
