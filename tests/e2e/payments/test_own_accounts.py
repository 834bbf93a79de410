"""No merchant is paid at an account of ours, or of the chain's set-up; nobody pays from one."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from eth_account import Account as EvmAccount
from florin.v1 import payout_pb2, system_pb2
from florin_server.boot.home import Home
from florin_server.chains.solana import spl
from florin_server.devnet.evm import DEVNET
from florin_server.devnet.solana import SOLNET
from florin_server.domain.caip import checksum_address
from florin_server.domain.payments.payment import Destination
from florin_server.domain.payouts.payout import Payout, PayoutKind
from florin_server.rails.evm.known_contracts import DEPLOYER
from florin_server.rails.evm.settings import MULTICALL3
from florin_server.store.accounts import destinations
from florin_server.store.payouts import payouts

from tests.support.accounts import PROTOCOLS, Account, told
from tests.support.api import Refused
from tests.support.books import SETTINGS, balance, exact, treasury_of
from tests.support.desk import Desk, opened
from tests.support.installation import operator_of
from tests.support.late_money import DOLLARS, mute, payouts_of, returned, told_to_send
from tests.support.payout_shop import CHAIN, DOLLAR, FEE, PRICE, USD, Shop, filled
from tests.support.solana import ASSETS, AT_ONCE, SolanaWallet
from tests.support.until import until
from tests.support.wallet import Wallet

pytestmark = pytest.mark.asyncio(loop_scope="module")

WRONG = (400, "params_validation")
NONCE = "florin nonce 0"
EVM = ("relayer", "treasury", "settler", "opener", "factory", "permit2", "multicall3", "deployer")
TOKENS = ("dollar", "euro")
SOLANA = ("relayer", "treasury", "nonce", "mint", "tokens", "their account", "treasury's account")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def desk(tmp_path_factory):
    nonces = AT_ONCE.model_copy(update={"durable_nonces": 1})
    chosen = {**SETTINGS, "solana": nonces}
    async with opened(tmp_path_factory.mktemp("own") / "home", **chosen) as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def shop(desk) -> AsyncIterator[Shop]:
    """A shop whose places are gone afterwards: what is told of all of them has an end."""
    shop = Shop(desk, await desk.tenant())
    yield shop
    store, merchant = desk.service.app.store, shop.tenant.merchant.id
    query = "SELECT id FROM settlement_dest WHERE merchant_id = ?"
    for (place,) in desk.select(query, merchant):
        await store.write(destinations.delete(merchant, place))


def evm_account(desk: Desk, who: str) -> str:
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


def solana_account(desk: Desk, who: str) -> str:
    rail = desk.service.app.rails[SOLNET.chain_id]
    relayer, treasury = rail.senders[0], rail.treasury.rpartition(":")[2]
    token = SOLNET.tokens[0]

    def held_by(owner: str) -> str:
        mint, program = spl.pubkey(token.address), spl.pubkey(token.program)
        return str(spl.associated(spl.pubkey(owner), mint, program))

    address = {
        "relayer": relayer,
        "treasury": treasury,
        "nonce": rail.durable_nonces.addresses[0],
        "mint": token.address,
        "tokens": token.program,
        "their account": held_by(relayer),
        "treasury's account": held_by(treasury),
    }[who]
    return f"{SOLNET.chain_id}:{address}"


def everything(desk: Desk) -> list[tuple[str, str]]:
    """An asset with each account that is not to receive it."""
    return [
        *((DOLLARS, evm_account(desk, who)) for who in (*EVM, *TOKENS)),
        *((ASSETS[0], solana_account(desk, who)) for who in SOLANA),
        (ASSETS[0], f"{SOLNET.chain_id}:{spl.SYSTEM}"),
    ]


async def force(shop: Shop, asset: str, account: str) -> None:
    """Stores a place as a version that did not look would have."""
    number = shop.desk.service.app.randbytes(8).hex()
    place = Destination(f"crypto_{number}", shop.tenant.merchant.id, asset, account)
    await shop.desk.service.app.store.write(destinations.put_destination(place))


# registration


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_an_account_that_is_ours_or_the_chains_is_refused_as_a_destination(desk, protocol):
    tenant = await desk.tenant()
    account, merchant = Account(tenant, protocol), tenant.merchant.id
    for asset, place in everything(desk):
        items = {"settlements": [{"asset": asset, "destination": place}]}
        error = await account.refused("CreateCryptoSettlements", items, merchant=merchant)
        assert told(error) == WRONG, place
        assert [one["field"] for one in error.issues] == ["settlements[0].destination"], place
        assert error.issues[0]["message"].startswith("must not "), place
    good = {
        DOLLARS: f"{CHAIN}:{Wallet().address}",
        ASSETS[0]: SolanaWallet().account,
    }
    items = [{"asset": asset, "destination": place} for asset, place in good.items()]
    made = await account.ask("CreateCryptoSettlements", {"settlements": items}, merchant=merchant)
    ids = {one["asset"]: one["id"] for one in made.body["settlements"]}
    for asset, place in everything(desk):
        error = await account.refused(
            "UpdateCryptoSettlement", {"destination": place}, merchant=merchant, id=ids[asset]
        )
        assert (told(error), [one["field"] for one in error.issues]) == (WRONG, ["destination"])
    kept = (await account.ask("ListSettlements", merchant=merchant)).body["crypto"]
    assert {one["asset"]: one["destination"] for one in kept} == good


async def test_capitals_and_other_chains_hide_no_account_of_ours(desk):
    tenant = await desk.tenant()
    account, merchant = Account(tenant, "REST"), tenant.merchant.id
    relayer = desk.service.app.rails[CHAIN].senders[0]
    for asset, place in (
        (DOLLARS, f"{CHAIN}:{checksum_address(relayer)}"),
        (DOLLARS, f"{CHAIN}:0x{relayer[2:].upper()}"),
        ("eip155:1/slip44:60", f"eip155:1:{relayer}"),
        ("eip155:1/slip44:60", treasury_of(desk).replace(CHAIN, "eip155:1")),
    ):
        items = {"settlements": [{"asset": asset, "destination": place}]}
        error = await account.refused("CreateCryptoSettlements", items, merchant=merchant)
        assert told(error) == WRONG


# what is stored already


@pytest.mark.parametrize("who", [*EVM, *TOKENS])
async def test_a_stored_place_that_is_ours_is_not_offered(desk, shop, who, caplog):
    wallet = Wallet()
    await filled(desk, wallet)
    await force(shop, DOLLARS, evm_account(desk, who))
    made = await desk.rest.call("POST", "/v1/payments", shop.tenant.headers, {"amount": USD})
    caplog.clear()
    assert (await desk.rest.options(made["paymentId"], [wallet.account]))["options"] == []
    (line,) = [one.message for one in caplog.records if "left out" in one.message]
    assert evm_account(desk, who) in line


@pytest.mark.parametrize("who", SOLANA)
async def test_a_stored_place_that_is_ours_is_not_offered_on_solana(desk, shop, who, caplog):
    await force(shop, ASSETS[0], solana_account(desk, who))
    made = await desk.rest.call("POST", "/v1/payments", shop.tenant.headers, {"amount": USD})
    caplog.clear()
    offered = (await desk.rest.options(made["paymentId"], [SolanaWallet().account]))["options"]
    # the other token is held by the treasury, for the merchant
    assert [one["amount"]["unit"] for one in offered] == [f"caip19/{ASSETS[1]}"]
    (line,) = [one.message for one in caplog.records if "left out" in one.message]
    assert solana_account(desk, who) in line


async def test_the_operator_is_told_of_places_that_are_ours_now(desk, shop):
    relayer = evm_account(desk, "relayer")
    spelled = f"{CHAIN}:{checksum_address(relayer.rpartition(':')[2])}"
    await force(shop, DOLLARS, spelled)
    async with operator_of(desk.service) as operator:
        status = await operator.ask("GetSystemStatus", system_pb2.GetSystemStatusRequest())
    (chain,) = [one for one in status.chains if one.chain_id == CHAIN]
    merchant = shop.tenant.merchant.id
    problem = f"merchant {merchant} wants {DOLLARS} at {spelled}, but that is a relayer of this"
    assert problem in chain.problem


# what leaves the treasury


async def test_a_merchant_is_not_paid_out_to_an_account_of_ours(desk, shop):
    await shop.sold(Wallet(), USD)
    for who in ("relayer", "treasury", "settler"):
        await force(shop, DOLLARS, evm_account(desk, who))
        async with operator_of(desk.service) as operator:
            request = payout_pb2.CreatePayoutRequest(
                merchant_id=shop.tenant.merchant.id, asset=DOLLARS
            )
            with pytest.raises(Refused) as caught:
                await operator.ask("CreatePayout", request)
        assert caught.value.code == "params_validation"


async def test_a_payout_to_an_account_that_became_ours_waits(desk, shop):
    app, relayer = desk.service.app, evm_account(desk, "relayer")
    await shop.sold(Wallet(), USD)
    one = Payout(
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
    await app.store.write(payouts.add(one))
    app.wake_payouts()
    problem = "the account that it goes to is a relayer of this service"
    await until(lambda: shop.problem(one.id), problem)
    await app.store.write(payouts.refuse(one.id, desk.clock.now_us()))
    assert await desk.chain.balance(relayer.rpartition(":")[2]) == 0


async def test_money_that_came_to_a_relayer_is_not_the_treasurys_to_return(tmp_path):
    """The account became ours after a buyer was told to pay there; the treasury is another, too.

    A return is paid by what the merchant is owed or may owe, not by what a hot wallet got.
    """
    home = tmp_path / "home"
    key = EvmAccount.create()
    async with opened(home, **SETTINGS) as desk:
        shop = Shop(desk, await desk.tenant())
        await shop.wants(f"erc20:{DOLLAR}", key.address.lower())
        first, second = await mute(desk), await mute(desk)
        payment_id, (paid, again) = await told_to_send(shop, first, second)
        former = treasury_of(desk)
        await exact(desk)
    _change_secret(home, relayer_key=bytes(key.key).hex())
    async with opened(home, **SETTINGS) as desk:
        shop = Shop(desk, shop.tenant)
        assert desk.service.app.rails[CHAIN].senders == (key.address.lower(),)
        assert treasury_of(desk) != former
        await first.perform(desk.chain, paid)
        assert (await desk.final(payment_id))["status"] == "succeeded"
        await second.perform(desk.chain, again)
        await returned(desk, payment_id)
        assert desk.select("SELECT backed FROM payout") == [(0,)]
        # the fee of the payment that was returned is owed, at the former treasury; its share is not
        merchant = f"merchant:{shop.tenant.merchant.id}"
        assert await balance(desk, merchant, DOLLARS) == PRICE - FEE
        assert await desk.chain.balance(key.address) == 2 * (PRICE - FEE)
        # its dollars are a new place in the books, which begins when they are looked at next
        desk.clock.advance(400)
        await exact(desk)


async def test_money_that_came_to_the_treasury_of_before_is_owed_and_not_backed(tmp_path):
    home = tmp_path / "home"
    async with opened(home, **SETTINGS) as desk:
        shop = Shop(desk, await desk.tenant())
        wallet = await mute(desk)
        payment_id, (actions,) = await told_to_send(shop, wallet)
        desk.clock.advance(905)
        assert (await desk.final(payment_id))["status"] == "expired"
        former = treasury_of(desk)
        held = await desk.chain.balance(former.rpartition(":")[2])
        await exact(desk)
    _change_secret(home, relayer_key="5e" * 32)
    async with opened(home, **SETTINGS) as desk:
        assert treasury_of(desk) != former
        await wallet.perform(desk.chain, actions)
        await returned(desk, payment_id)
        assert desk.select("SELECT backed FROM payout") == [(0,)]
        assert await balance(desk, f"merchant:{shop.tenant.merchant.id}", DOLLARS) == 0
        assert await desk.chain.balance(former.rpartition(":")[2]) == held + PRICE
        await exact(desk)


def _change_secret(home: Any, **changes: str) -> None:
    path = Home(home).path / "secrets.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


async def test_late_money_in_the_treasury_is_backed(desk, shop):
    wallet = await mute(desk)
    payment_id, (actions,) = await told_to_send(shop, wallet)
    desk.clock.advance(905)
    assert (await desk.final(payment_id))["status"] == "expired"
    await wallet.perform(desk.chain, actions)
    payout = await returned(desk, payment_id)
    assert desk.select("SELECT backed FROM payout WHERE id = ?", payout.payout_id) == [(1,)]
    assert [one.payout_id for one in await payouts_of(desk, payment_id)] == [payout.payout_id]


# who pays


async def test_our_own_accounts_pay_for_nothing_and_get_no_test_money(desk, shop):
    accounts = [evm_account(desk, who) for who in (*EVM, *TOKENS)]
    accounts += [solana_account(desk, who) for who in SOLANA]
    await exact(desk)
    before = [await desk.chain.balance(one.rpartition(":")[2]) for one in accounts[: len(EVM)]]
    made = await desk.rest.call("POST", "/v1/payments", shop.tenant.headers, {"amount": USD})
    assert (await desk.rest.options(made["paymentId"], accounts))["options"] == []
    after = [await desk.chain.balance(one.rpartition(":")[2]) for one in accounts[: len(EVM)]]
    assert after == before
    await exact(desk)
