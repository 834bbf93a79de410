"""A merchant's destinations, over REST and over gRPC, up to the money itself."""

from __future__ import annotations

import asyncio
import re

import pytest
import pytest_asyncio
from florin.v1 import partner_pb2

from tests.support.accounts import PROTOCOLS, PartnerAccount, to_refusal
from tests.support.api import ApiCallError
from tests.support.operator import ask
from tests.support.service_harness import DEPLOYED, ORDER, SPEC, PartnerTenant
from tests.support.wallet import EvmTestWallet

USDC = "eip155:8453/erc20:0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
ETHER = "eip155:1/slip44:60"
SOL = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp/slip44:501"
KEY = "7S3P4HxJpyyigGzodYwHtCxZyUQe9JiBMHyRWXArAaKv"
MIXED = "0x52908400098527886E0F7030069857D2E4169EE7"
CHECKED = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
SWAPPED = "0x5aaeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
LOWER = CHECKED.lower()
ZERO = "0x" + "0" * 40
PRICE = 12_500_000  # 12.50 in a token of six decimals
WRONG = (400, "params_validation")
TAKEN = (409, "invalid_state")
UNKNOWN = (404, "invalid_params")
NO_MERCHANT = (404, "merchant_not_found")

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.parametrize("protocol", PROTOCOLS),
]


@pytest_asyncio.fixture(loop_scope="module")
async def tenant(desk) -> PartnerTenant:
    return await desk.tenant()


@pytest.fixture
def shop(tenant, protocol) -> Shop:
    return Shop(PartnerAccount(tenant, protocol), tenant.merchant.id)


class Shop:
    """One merchant's settlements."""

    def __init__(self, account, merchant):
        self.account = account
        self.merchant = merchant

    async def ask(self, name, body=None, settlement="", key=None):
        where = {"merchant": self.merchant, "id": settlement}
        return await self.account.ask(name, body, **where, key=key)

    async def add(self, *pairs, key=None):
        items = [{"asset": asset, "destination": to} for asset, to in pairs]
        answer = await self.ask("CreateCryptoSettlements", {"settlements": items}, key=key)
        return answer.body["settlements"]

    async def move(self, settlement, to, key=None):
        return await self.ask("UpdateCryptoSettlement", {"destination": to}, settlement["id"], key)

    async def delete(self, settlement, key=None):
        return await self.ask("DeleteCryptoSettlement", None, settlement["id"], key)

    async def all(self):
        return (await self.ask("ListSettlements")).body


async def refused(call):
    with pytest.raises(ApiCallError) as caught:
        await call
    return caught.value


def fields(error):
    return [issue["field"] for issue in error.issues]


async def test_settlements_are_listed_as_they_were_written(shop):
    pairs = [
        (f"caip19/{USDC}", f"eip155:8453:{CHECKED}"),
        (ETHER, f"eip155:1:{LOWER}"),
        (
            SOL,
            f"solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp:{KEY}",
        ),
    ]
    created = await shop.add(*pairs)
    assert [(item["asset"], item["destination"]) for item in created] == [
        (asset.removeprefix("caip19/"), to) for asset, to in pairs
    ]
    assert all(re.fullmatch(r"crypto_[0-9A-Za-z]{17}", item["id"]) for item in created)
    assert all(set(item) == {"id", "asset", "destination"} for item in created)
    listed = await shop.all()
    assert listed["fiat"] == []
    assert sorted(listed["crypto"], key=str) == sorted(created, key=str)
    assert [item["asset"] for item in listed["crypto"]] == sorted(item["asset"] for item in created)
    profile = (await shop.ask("GetMerchant")).body["merchant"]
    assert profile["settlements"] == listed


@pytest.mark.parametrize(
    ("asset", "destination", "field"),
    [
        *((asset, f"eip155:1:{LOWER}", "asset") for asset in (None, "", "ether", "eip155:1")),
        *((asset, f"eip155:1:{LOWER}", "asset") for asset in ("caip19/caip19/" + ETHER, "caip19/")),
        *((f"eip155:1/erc20:{text}", f"eip155:1:{LOWER}", "asset") for text in ("USDC", "0x1")),
        *((f"eip155:1/erc20:{text}", f"eip155:1:{LOWER}", "asset") for text in (SWAPPED, ZERO)),
        (f"eip155:1/erc721:{LOWER}/7", f"eip155:1:{LOWER}", "asset"),
        (ETHER + "0" * 256, f"eip155:1:{LOWER}", "asset"),
        *((ETHER, account, "destination") for account in (None, "", LOWER, "eip155:1", "a@b.co")),
        *((ETHER, f"eip155:{text}", "destination") for text in (f"2:{LOWER}", f"01:{LOWER}")),
        *((ETHER, f"eip155:1:{text}", "destination") for text in ("0x1", LOWER[2:], ZERO)),
        *((ETHER, f"eip155:1:{text}", "destination") for text in (SWAPPED, "0X" + LOWER[2:])),
        (ETHER, f"eip155:1:{LOWER}\n", "destination"),
        (ETHER, f"eip155:1:{LOWER}" + " " * 256, "destination"),
        (SOL, f"eip155:1:{LOWER}", "destination"),
        (ETHER, "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp:7S3P4HxJpyyig", "destination"),
        (SOL, "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp:7S3P4HxJpyyig", "destination"),
    ],
)
async def test_a_place_that_no_money_should_go_to_is_refused(desk, shop, asset, destination, field):
    before = desk.rows()
    error = await refused(shop.add((USDC, f"eip155:8453:{LOWER}"), (asset, destination)))
    assert to_refusal(error) == WRONG
    assert fields(error) == [f"settlements[1].{field}"]
    assert desk.rows() == before


async def test_all_invalid_destinations_are_reported_together(shop):
    error = await refused(shop.add(("x", "y"), (ETHER, f"eip155:2:{LOWER}")))
    assert fields(error) == [
        "settlements[0].asset",
        "settlements[0].destination",
        "settlements[1].destination",
    ]


@pytest.mark.parametrize("address", [CHECKED, LOWER, MIXED, "0x" + LOWER[2:].upper()])
async def test_address_is_accepted_in_a_single_case_or_with_its_checksum(shop, address):
    (created,) = await shop.add((ETHER, f"eip155:1:{address}"))
    assert created["destination"] == f"eip155:1:{address}"


@pytest.mark.parametrize(("count", "status"), [(0, 400), (1, 201), (50, 201), (51, 400)])
async def test_up_to_fifty_destinations_are_added_at_once(shop, count, status):
    pairs = [(f"eip155:1/slip44:{n}", f"eip155:1:{LOWER}") for n in range(count)]
    if status == 201:
        assert len(await shop.add(*pairs)) == count
    else:
        error = await refused(shop.add(*pairs))
        assert (to_refusal(error), fields(error)) == (WRONG, ["settlements"])
    assert len((await shop.all())["crypto"]) == (count if status == 201 else 0)


@pytest.mark.parametrize("profile", [SPEC, DEPLOYED, {}], ids=["spec", "deployed", "no header"])
async def test_an_asset_that_is_taken_lets_nothing_through(desk, tenant, protocol, profile):
    shop = Shop(PartnerAccount(tenant, protocol, **profile), tenant.merchant.id)
    (existing,) = await shop.add((USDC, f"eip155:8453:{LOWER}"))
    ether, other = (ETHER, f"eip155:1:{LOWER}"), f"eip155:8453:{CHECKED}"
    before = desk.rows()
    for pairs in (
        [(USDC, other)],
        [ether, (USDC, other)],
        [ether, (USDC.lower(), other)],
        [ether, (f"caip19/{USDC}", f"eip155:8453:{LOWER}")],
        [ether, ether],
        [(SOL, f"solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp:{KEY}"), ether, ether],
    ):
        error = await refused(shop.add(*pairs, key="one"))
        code = "settlement_asset_conflict" if profile is DEPLOYED else "invalid_state"
        assert to_refusal(error) == (409, code)
        assert error.details == {"reason": "settlement_asset_conflict"}
    assert desk.rows() == before
    assert (await shop.all())["crypto"] == [existing]
    # the key of a refused request is free again
    assert await shop.add(ether, key="one")


async def test_concurrent_additions_of_an_asset_have_a_single_winner(shop):
    answers = await asyncio.gather(
        *(shop.add((ETHER, f"eip155:1:{LOWER}")) for _ in range(10)), return_exceptions=True
    )
    created = [answer for answer in answers if isinstance(answer, list)]
    assert [to_refusal(answer) for answer in answers if isinstance(answer, ApiCallError)] == [
        TAKEN
    ] * 9
    assert (await shop.all())["crypto"] == created[0]


async def test_a_destination_is_changed_on_its_own_chain(shop):
    (created,) = await shop.add((ETHER, f"eip155:1:{LOWER}"))
    moved = {**created, "destination": f"eip155:1:{MIXED}"}
    assert (await shop.move(created, moved["destination"])).body == moved
    assert (await shop.all())["crypto"] == [moved]
    for wrong in (f"eip155:2:{LOWER}", "", None, f"eip155:1:{SWAPPED}", f"eip155:1:{ZERO}", "x"):
        error = await refused(shop.move(created, wrong))
        assert (to_refusal(error), fields(error)) == (WRONG, ["destination"])
    assert (await shop.all())["crypto"] == [moved]
    # a fault of the body is reported before the resource is looked up
    assert to_refusal(await refused(shop.move({"id": "crypto_0"}, f"eip155:1:{ZERO}"))) == WRONG
    unknown = await refused(shop.move({"id": "crypto_0"}, f"eip155:2:{LOWER}"))
    assert to_refusal(unknown) == UNKNOWN


async def test_a_deleted_settlement_is_gone(shop):
    (created,) = await shop.add((ETHER, f"eip155:1:{LOWER}"))
    assert (await shop.delete(created)).body == {"id": created["id"], "deleted": True}
    assert to_refusal(await refused(shop.delete(created))) == UNKNOWN
    assert to_refusal(await refused(shop.move(created, created["destination"]))) == UNKNOWN
    assert await shop.all() == {"fiat": [], "crypto": []}
    (again,) = await shop.add((ETHER, f"eip155:1:{LOWER}"))
    assert again["id"] != created["id"]


@pytest.mark.parametrize("profile", [SPEC, DEPLOYED, {}], ids=["spec", "deployed", "no header"])
async def test_a_settlement_is_its_merchants(desk, tenant, protocol, profile):
    account = PartnerAccount(tenant, protocol, **profile, **{"Request-Id": "same"})
    shop, theirs = Shop(account, tenant.merchant.id), await desk.tenant()
    created = await account.ask(
        "CreateMerchant", {"merchantName": "Bar", "merchantEmail": "bar@bar.example"}
    )
    sister = Shop(account, created.body["merchant"]["id"])
    foreign = Shop(PartnerAccount(theirs, protocol), theirs.merchant.id)
    pair = (ETHER, f"eip155:1:{LOWER}")
    (own,), (hers,), (remaining,) = (
        await shop.add(pair),
        await sister.add(pair),
        await foreign.add(pair),
    )
    expected = (404, "not_found" if profile is DEPLOYED else "invalid_params")
    errors = []
    for place in (hers, remaining, {"id": "crypto_0"}, {"id": "x/y z%2F"}):
        errors += [await refused(shop.move(place, pair[1])), await refused(shop.delete(place))]
    assert [to_refusal(error) for error in errors] == [expected] * 8
    assert len({str(error) for error in errors}) == 1
    for each_shop, place in ((shop, own), (sister, hers), (foreign, remaining)):
        assert (await each_shop.all())["crypto"] == [place]


async def test_bank_accounts_are_listed_beside_crypto_destinations(desk, shop, tenant):
    request = partner_pb2.AddFiatSettlementRequest(
        merchant_id=shop.merchant, status="pending_review", bank_type="sepa"
    )
    place = await ask(desk, "AddFiatSettlement", request)
    bank = {"id": place.id, "status": "pending_review", "bankType": "sepa"}
    assert await shop.all() == {"fiat": [bank], "crypto": []}
    profile = (await shop.ask("GetMerchant")).body["merchant"]
    assert profile["settlements"]["fiat"] == [bank]
    # partners cannot change bank accounts through settlements
    assert to_refusal(await refused(shop.delete(bank))) == UNKNOWN


async def test_repeated_calls_with_a_key_are_done_once(shop):
    pair = (ETHER, f"eip155:1:{LOWER}")
    items = {"settlements": [{"asset": pair[0], "destination": pair[1]}]}
    for name, body, settlement in (
        ("CreateCryptoSettlements", items, ""),
        ("UpdateCryptoSettlement", {"destination": f"eip155:1:{MIXED}"}, None),
        ("DeleteCryptoSettlement", None, None),
    ):
        crypto = (await shop.all())["crypto"]
        where = settlement if settlement is not None else crypto[0]["id"]
        first = await shop.ask(name, body, where, key=name)
        after = await shop.all()
        again = await shop.ask(name, body, where, key=name)
        assert (first.replayed, again.replayed) == (False, True)
        assert again.body == first.body
        assert await shop.all() == after
    other = {"settlements": [{"asset": SOL, "destination": pair[1]}]}
    error = await refused(shop.ask("CreateCryptoSettlements", other, key="CreateCryptoSettlements"))
    assert to_refusal(error) == (409, "idempotency_conflict")


# the money


class MerchantPos:
    """Payments of one merchant."""

    def __init__(self, desk, tenant):
        self.desk = desk
        self.tenant = tenant

    async def offer(self, payment_id=None, wallet=None):
        wallet = wallet or EvmTestWallet()
        await self.desk.chain.fund(wallet.address)
        if payment_id is None:
            created = await self.desk.ask("POST", "/v1/payments", self.tenant.headers, ORDER)
            payment_id = created.body["paymentId"]
        (option,) = (await self.desk.rest.options(payment_id, [wallet.account]))["options"]
        return payment_id, wallet, option

    async def pay(self, payment_id, wallet, option):
        """Pay; return the payment as its merchant sees it."""
        await self.desk.rest.confirm(payment_id, option["id"], wallet.execute_all(option))
        assert (await self.desk.wait_final(payment_id))["status"] == "succeeded"
        headers = self.tenant.headers
        return (await self.desk.ask("GET", f"/v1/payments/{payment_id}", headers)).body


@pytest.mark.both_chains
async def test_payment_is_sent_to_the_destination_at_the_time_of_its_options(desk, shop, tenant):
    pos, first, second = MerchantPos(desk, tenant), EvmTestWallet(), EvmTestWallet()
    asset = desk.env["FLORIN_EVM_ASSET"]
    (place,) = await shop.add((f"caip19/{asset}", first.account))
    existing = await pos.offer()
    paid = await pos.pay(*await pos.offer())
    assert await desk.chain.balance(first.address) == PRICE
    assert paid["settlement"]["successful"]["amount"]["value"] == str(PRICE)

    await shop.move(place, second.account)
    # a wallet that asks again gets another option, but its first option keeps the old destination
    _, _, other = await pos.offer(existing[0], existing[1])
    assert other["id"] != existing[2]["id"]
    await pos.pay(*existing)
    assert await desk.chain.balance(first.address) == 2 * PRICE
    assert await desk.chain.balance(second.address) == 0
    await pos.pay(*await pos.offer())
    assert await desk.chain.balance(second.address) == PRICE

    await shop.delete({"id": place["id"]})
    held = await pos.pay(*await pos.offer())
    assert held["settlement"] != paid["settlement"]
    assert await desk.chain.balance(first.address) == 2 * PRICE
    assert await desk.chain.balance(second.address) == PRICE
