"""No merchant is paid at an account of Florin's, or of the chain's set-up; none pays from one."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from eth_account import Account as EvmAccount
from florin.v1 import payout_pb2, system_pb2
from florin_sandbox.devnet.evm import DEVNET
from florin_sandbox.devnet.solana import SOLANA_DEVNET
from florin_server.accounts.store import destinations
from florin_server.app.home import StateFolder
from florin_server.base.topics import Topic
from florin_server.domain.caip import format_checksum_address
from florin_server.domain.chains.solana import spl
from florin_server.domain.payments.payment import Destination
from florin_server.domain.payouts.payout import Payout, PayoutKind
from florin_server.money.payouts.store import payouts
from florin_server.rails.evm.known_contracts import DEPLOYER
from florin_server.rails.evm.settings import MULTICALL3

from tests.support.accounts import PROTOCOLS, PartnerAccount, to_refusal
from tests.support.api import ApiCallError
from tests.support.books import SETTINGS, get_balance, get_treasury, wait_exact
from tests.support.installation import open_operator
from tests.support.late_money import (
    DOLLARS,
    get_send_actions,
    list_payouts,
    make_non_signing_wallet,
    wait_returned,
)
from tests.support.payout_merchant import (
    CHAIN,
    DOLLAR,
    FEE,
    PRICE,
    USD,
    PayoutMerchant,
    wait_faucet_booked,
)
from tests.support.service_harness import ServiceHarness, open_service
from tests.support.solana import ASSETS, INSTANT_SOLANA, SolanaTestWallet
from tests.support.until import wait_until
from tests.support.wallet import EvmTestWallet

pytestmark = pytest.mark.asyncio(loop_scope="module")

WRONG = (400, "params_validation")
NONCE = "florin nonce 0"
EVM = ("relayer", "treasury", "settler", "opener", "factory", "permit2", "multicall3", "deployer")
TOKENS = ("dollar", "euro")
SOLANA = ("relayer", "treasury", "nonce", "mint", "tokens", "their account", "treasury's account")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def desk(tmp_path_factory):
    nonces = INSTANT_SOLANA.model_copy(update={"durable_nonces": 1})
    chosen = {**SETTINGS, "solana": nonces}
    async with open_service(tmp_path_factory.mktemp("own") / "home", **chosen) as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def shop(desk) -> AsyncIterator[PayoutMerchant]:
    """Open a merchant whose destinations are deleted afterwards, as lists of all have a limit."""
    shop = PayoutMerchant(desk, await desk.tenant())
    yield shop
    store, merchant = desk.service.app.store, shop.tenant.merchant.id
    query = "SELECT id FROM settlement_dest WHERE merchant_id = ?"
    for (place,) in desk.select(query, merchant):
        await store.write(destinations.delete(merchant, place))


def evm_account(desk: ServiceHarness, who: str) -> str:
    rail = desk.service.app.rails[CHAIN]
    address = {
        "relayer": rail.senders[0],
        "treasury": rail.treasury.rpartition(":")[2],
        "settler": DEVNET.settler,
        "opener": DEVNET.opener,
        "factory": DEVNET.wallet_factory,
        "permit2": DEVNET.permit2,
        "multicall3": MULTICALL3,
        "deployer": DEPLOYER,
        "dollar": DOLLAR,
        "euro": DEVNET.euro.address,
    }[who]
    return f"{CHAIN}:{address}"


def solana_account(desk: ServiceHarness, who: str) -> str:
    rail = desk.service.app.rails[SOLANA_DEVNET.chain_id]
    relayer, treasury = rail.senders[0], rail.treasury.rpartition(":")[2]
    token = SOLANA_DEVNET.tokens[0]

    def held_by(owner: str) -> str:
        mint, program = spl.parse_pubkey(token.address), spl.parse_pubkey(token.program)
        return str(spl.derive_associated_address(spl.parse_pubkey(owner), mint, program))

    address = {
        "relayer": relayer,
        "treasury": treasury,
        "nonce": rail.durable_nonces.addresses[0],
        "mint": token.address,
        "tokens": token.program,
        "their account": held_by(relayer),
        "treasury's account": held_by(treasury),
    }[who]
    return f"{SOLANA_DEVNET.chain_id}:{address}"


def everything(desk: ServiceHarness) -> list[tuple[str, str]]:
    """Return an asset with each account that may not receive it."""
    return [
        *((DOLLARS, evm_account(desk, who)) for who in (*EVM, *TOKENS)),
        *((ASSETS[0], solana_account(desk, who)) for who in SOLANA),
        (ASSETS[0], f"{SOLANA_DEVNET.chain_id}:{spl.SYSTEM}"),
    ]


async def force(shop: PayoutMerchant, asset: str, account: str) -> None:
    """Store a destination as a version without the check would have."""
    number = shop.service.service.app.randbytes(8).hex()
    place = Destination(f"crypto_{number}", shop.tenant.merchant.id, asset, account)
    await shop.service.service.app.store.write(destinations.put_destination(place))


# registration


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_an_account_that_is_ours_or_the_chains_is_refused_as_a_destination(desk, protocol):
    tenant = await desk.tenant()
    account, merchant = PartnerAccount(tenant, protocol), tenant.merchant.id
    for asset, place in everything(desk):
        items = {"settlements": [{"asset": asset, "destination": place}]}
        error = await account.get_refusal("CreateCryptoSettlements", items, merchant=merchant)
        assert to_refusal(error) == WRONG, place
        assert [issue["field"] for issue in error.issues] == ["settlements[0].destination"], place
        assert error.issues[0]["message"].startswith("must not "), place
    good = {
        DOLLARS: f"{CHAIN}:{EvmTestWallet().address}",
        ASSETS[0]: SolanaTestWallet().account,
    }
    items = [{"asset": asset, "destination": place} for asset, place in good.items()]
    response = await account.ask(
        "CreateCryptoSettlements", {"settlements": items}, merchant=merchant
    )
    ids = {settlement["asset"]: settlement["id"] for settlement in response.body["settlements"]}
    for asset, place in everything(desk):
        error = await account.get_refusal(
            "UpdateCryptoSettlement", {"destination": place}, merchant=merchant, id=ids[asset]
        )
        assert (to_refusal(error), [issue["field"] for issue in error.issues]) == (
            WRONG,
            ["destination"],
        )
    crypto = (await account.ask("ListSettlements", merchant=merchant)).body["crypto"]
    assert {item["asset"]: item["destination"] for item in crypto} == good


async def test_capitals_and_other_chains_hide_no_account_of_ours(desk):
    tenant = await desk.tenant()
    account, merchant = PartnerAccount(tenant, "REST"), tenant.merchant.id
    relayer = desk.service.app.rails[CHAIN].senders[0]
    for asset, place in (
        (DOLLARS, f"{CHAIN}:{format_checksum_address(relayer)}"),
        (DOLLARS, f"{CHAIN}:0x{relayer[2:].upper()}"),
        ("eip155:1/slip44:60", f"eip155:1:{relayer}"),
        ("eip155:1/slip44:60", get_treasury(desk).replace(CHAIN, "eip155:1")),
    ):
        items = {"settlements": [{"asset": asset, "destination": place}]}
        error = await account.get_refusal("CreateCryptoSettlements", items, merchant=merchant)
        assert to_refusal(error) == WRONG


# destinations that are already stored


@pytest.mark.parametrize("who", [*EVM, *TOKENS])
async def test_a_stored_place_that_is_ours_is_not_offered(desk, shop, who, caplog):
    wallet = EvmTestWallet()
    await wait_faucet_booked(desk, wallet)
    await force(shop, DOLLARS, evm_account(desk, who))
    created = await desk.rest.call("POST", "/v1/payments", shop.tenant.headers, {"amount": USD})
    caplog.clear()
    assert (await desk.rest.options(created["paymentId"], [wallet.account]))["options"] == []
    (line,) = [record.message for record in caplog.records if "left out" in record.message]
    assert evm_account(desk, who) in line


@pytest.mark.parametrize("who", SOLANA)
async def test_a_stored_place_that_is_ours_is_not_offered_on_solana(desk, shop, who, caplog):
    await force(shop, ASSETS[0], solana_account(desk, who))
    created = await desk.rest.call("POST", "/v1/payments", shop.tenant.headers, {"amount": USD})
    caplog.clear()
    offered = (await desk.rest.options(created["paymentId"], [SolanaTestWallet().account]))[
        "options"
    ]
    # the treasury keeps the other token, for the merchant
    assert [item["amount"]["unit"] for item in offered] == [f"caip19/{ASSETS[1]}"]
    (line,) = [record.message for record in caplog.records if "left out" in record.message]
    assert solana_account(desk, who) in line


async def test_operator_status_reports_destinations_that_are_now_reserved(desk, shop):
    relayer = evm_account(desk, "relayer")
    spelled = f"{CHAIN}:{format_checksum_address(relayer.rpartition(':')[2])}"
    await force(shop, DOLLARS, spelled)
    async with open_operator(desk.service) as operator:
        status = await operator.call("GetSystemStatus", system_pb2.GetSystemStatusRequest())
    (chain,) = [each_chain for each_chain in status.chains if each_chain.chain_id == CHAIN]
    merchant = shop.tenant.merchant.id
    problem = f"merchant {merchant} wants {DOLLARS} at {spelled}, but that is a relayer of this"
    assert problem in chain.problem


# payouts of the treasury


async def test_a_merchant_is_not_paid_out_to_an_account_of_ours(desk, shop):
    await shop.create_paid_payment(EvmTestWallet(), USD)
    for who in ("relayer", "treasury", "settler"):
        await force(shop, DOLLARS, evm_account(desk, who))
        async with open_operator(desk.service) as operator:
            request = payout_pb2.CreatePayoutRequest(
                merchant_id=shop.tenant.merchant.id, asset=DOLLARS
            )
            with pytest.raises(ApiCallError) as caught:
                await operator.call("CreatePayout", request)
        assert caught.value.code == "params_validation"


async def test_a_payout_to_an_account_that_became_ours_waits(desk, shop):
    app, relayer = desk.service.app, evm_account(desk, "relayer")
    await shop.create_paid_payment(EvmTestWallet(), USD)
    payout = Payout(
        id=f"pout_{app.randbytes(8).hex()}",
        kind=PayoutKind.BALANCE,
        merchant_id=shop.tenant.merchant.id,
        payment_id=None,
        live=False,
        chain_id=CHAIN,
        asset=DOLLARS,
        value=1_000,
        account=relayer,
        created_at_us=desk.clock.now_us(),
    )
    await app.store.write(payouts.add(payout))
    app.notifier.publish(Topic.PAYOUTS_DUE)
    problem = "its destination is a relayer of this service"
    await wait_until(lambda: shop.wait_problem(payout.id), problem)
    await app.store.write(payouts.refuse(payout.id, desk.clock.now_us()))
    assert await desk.chain.balance(relayer.rpartition(":")[2]) == 0


async def test_money_that_came_to_a_relayer_is_not_the_treasurys_to_return(tmp_path):
    """The account became Florin's after a buyer got it as a destination; the treasury changed, too.

    A return is paid from the merchant's present or future balance, not from a hot wallet's
    receipts.
    """
    home = tmp_path / "home"
    key = EvmAccount.create()
    async with open_service(home, **SETTINGS) as desk:
        shop = PayoutMerchant(desk, await desk.tenant())
        await shop.set_destination(f"erc20:{DOLLAR}", key.address.lower())
        first, second = await make_non_signing_wallet(desk), await make_non_signing_wallet(desk)
        payment_id, (paid, again) = await get_send_actions(shop, first, second)
        former = get_treasury(desk)
        await wait_exact(desk)
    _change_secret(home, relayer_key=bytes(key.key).hex())
    async with open_service(home, **SETTINGS) as desk:
        shop = PayoutMerchant(desk, shop.tenant)
        assert desk.service.app.rails[CHAIN].senders == (key.address.lower(),)
        assert get_treasury(desk) != former
        await first.perform(desk.chain, paid)
        assert (await desk.wait_final(payment_id))["status"] == "succeeded"
        await second.perform(desk.chain, again)
        await wait_returned(desk, payment_id)
        assert desk.select("SELECT backed FROM payout") == [(0,)]
        # the fee of the returned payment is owed, at the former treasury; its share is not
        merchant = f"merchant:{shop.tenant.merchant.id}"
        assert await get_balance(desk, merchant, DOLLARS) == PRICE - FEE
        assert await desk.chain.balance(key.address) == 2 * (PRICE - FEE)
        # its dollars are a new account in the books, which begins when balances are next read
        desk.clock.advance(400)
        await wait_exact(desk)


async def test_money_that_came_to_the_treasury_of_before_is_owed_and_not_backed(tmp_path):
    home = tmp_path / "home"
    async with open_service(home, **SETTINGS) as desk:
        shop = PayoutMerchant(desk, await desk.tenant())
        wallet = await make_non_signing_wallet(desk)
        payment_id, (actions,) = await get_send_actions(shop, wallet)
        desk.clock.advance(905)
        assert (await desk.wait_final(payment_id))["status"] == "expired"
        former = get_treasury(desk)
        held = await desk.chain.balance(former.rpartition(":")[2])
        await wait_exact(desk)
    _change_secret(home, relayer_key="5e" * 32)
    async with open_service(home, **SETTINGS) as desk:
        assert get_treasury(desk) != former
        await wallet.perform(desk.chain, actions)
        await wait_returned(desk, payment_id)
        assert desk.select("SELECT backed FROM payout") == [(0,)]
        assert await get_balance(desk, f"merchant:{shop.tenant.merchant.id}", DOLLARS) == 0
        assert await desk.chain.balance(former.rpartition(":")[2]) == held + PRICE
        await wait_exact(desk)


def _change_secret(home: Any, **changes: str) -> None:
    path = StateFolder(home).path / "secrets.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


async def test_late_money_in_the_treasury_is_backed(desk, shop):
    wallet = await make_non_signing_wallet(desk)
    payment_id, (actions,) = await get_send_actions(shop, wallet)
    desk.clock.advance(905)
    assert (await desk.wait_final(payment_id))["status"] == "expired"
    await wallet.perform(desk.chain, actions)
    payout = await wait_returned(desk, payment_id)
    assert desk.select("SELECT backed FROM payout WHERE id = ?", payout.payout_id) == [(1,)]
    assert [each_payout.payout_id for each_payout in await list_payouts(desk, payment_id)] == [
        payout.payout_id
    ]


# payers


async def test_our_own_accounts_pay_for_nothing_and_get_no_test_money(desk, shop):
    accounts = [evm_account(desk, who) for who in (*EVM, *TOKENS)]
    accounts += [solana_account(desk, who) for who in SOLANA]
    await wait_exact(desk)
    before = [await desk.chain.balance(text.rpartition(":")[2]) for text in accounts[: len(EVM)]]
    created = await desk.rest.call("POST", "/v1/payments", shop.tenant.headers, {"amount": USD})
    assert (await desk.rest.options(created["paymentId"], accounts))["options"] == []
    after = [await desk.chain.balance(text.rpartition(":")[2]) for text in accounts[: len(EVM)]]
    assert after == before
    await wait_exact(desk)
