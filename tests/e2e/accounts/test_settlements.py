"""Where a merchant wants its money, through REST and through gRPC, up to the money itself."""

from __future__ import annotations

import asyncio
import re

import pytest
import pytest_asyncio
from florin_server.domain.payments.payment import BankAccount
from florin_server.store.accounts import destinations

from tests.support.accounts import PROTOCOLS, Account, told
from tests.support.api import Refused
from tests.support.desk import DEPLOYED, ORDER, SPEC, Tenant
from tests.support.wallet import Wallet

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
async def tenant(desk) -> Tenant:
    return await desk.tenant()


@pytest.fixture
def shop(tenant, protocol) -> Shop:
    return Shop(Account(tenant, protocol), tenant.merchant.id)


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
    with pytest.raises(Refused) as caught:
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
    made = await shop.add(*pairs)
    assert [(one["asset"], one["destination"]) for one in made] == [
        (asset.removeprefix("caip19/"), to) for asset, to in pairs
    ]
    assert all(re.fullmatch(r"crypto_[0-9A-Za-z]{17}", one["id"]) for one in made)
    assert all(set(one) == {"id", "asset", "destination"} for one in made)
    listed = await shop.all()
    assert listed["fiat"] == []
    assert sorted(listed["crypto"], key=str) == sorted(made, key=str)
    assert [one["asset"] for one in listed["crypto"]] == sorted(one["asset"] for one in made)
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
    assert told(error) == WRONG
    assert fields(error) == [f"settlements[1].{field}"]
    assert desk.rows() == before


async def test_all_faults_are_told_at_once(shop):
    error = await refused(shop.add(("x", "y"), (ETHER, f"eip155:2:{LOWER}")))
    assert fields(error) == [
        "settlements[0].asset",
        "settlements[0].destination",
        "settlements[1].destination",
    ]


@pytest.mark.parametrize("address", [CHECKED, LOWER, MIXED, "0x" + LOWER[2:].upper()])
async def test_an_address_in_one_case_or_with_its_checksum(shop, address):
    (made,) = await shop.add((ETHER, f"eip155:1:{address}"))
    assert made["destination"] == f"eip155:1:{address}"


@pytest.mark.parametrize(("count", "status"), [(0, 400), (1, 201), (50, 201), (51, 400)])
async def test_one_to_fifty_at_once(shop, count, status):
    pairs = [(f"eip155:1/slip44:{n}", f"eip155:1:{LOWER}") for n in range(count)]
    if status == 201:
        assert len(await shop.add(*pairs)) == count
    else:
        error = await refused(shop.add(*pairs))
        assert (told(error), fields(error)) == (WRONG, ["settlements"])
    assert len((await shop.all())["crypto"]) == (count if status == 201 else 0)


@pytest.mark.parametrize("profile", [SPEC, DEPLOYED, {}], ids=["spec", "deployed", "no header"])
async def test_an_asset_that_is_taken_lets_nothing_through(desk, tenant, protocol, profile):
    shop = Shop(Account(tenant, protocol, **profile), tenant.merchant.id)
    (known,) = await shop.add((USDC, f"eip155:8453:{LOWER}"))
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
        assert told(error) == (409, code)
        assert error.details == {"reason": "settlement_asset_conflict"}
    assert desk.rows() == before
    assert (await shop.all())["crypto"] == [known]
    # the key of what was refused is free
    assert await shop.add(ether, key="one")


async def test_of_many_at_the_same_time_one_gets_the_asset(shop):
    answers = await asyncio.gather(
        *(shop.add((ETHER, f"eip155:1:{LOWER}")) for _ in range(10)), return_exceptions=True
    )
    made = [answer for answer in answers if isinstance(answer, list)]
    assert [told(answer) for answer in answers if isinstance(answer, Refused)] == [TAKEN] * 9
    assert (await shop.all())["crypto"] == made[0]


async def test_a_destination_is_changed_on_its_own_chain(shop):
    (made,) = await shop.add((ETHER, f"eip155:1:{LOWER}"))
    moved = {**made, "destination": f"eip155:1:{MIXED}"}
    assert (await shop.move(made, moved["destination"])).body == moved
    assert (await shop.all())["crypto"] == [moved]
    for wrong in (f"eip155:2:{LOWER}", "", None, f"eip155:1:{SWAPPED}", f"eip155:1:{ZERO}", "x"):
        error = await refused(shop.move(made, wrong))
        assert (told(error), fields(error)) == (WRONG, ["destination"])
    assert (await shop.all())["crypto"] == [moved]
    # a fault of the body is told before the resource is looked for
    assert told(await refused(shop.move({"id": "crypto_0"}, f"eip155:1:{ZERO}"))) == WRONG
    unknown = await refused(shop.move({"id": "crypto_0"}, f"eip155:2:{LOWER}"))
    assert told(unknown) == UNKNOWN


async def test_a_deleted_settlement_is_gone(shop):
    (made,) = await shop.add((ETHER, f"eip155:1:{LOWER}"))
    assert (await shop.delete(made)).body == {"id": made["id"], "deleted": True}
    assert told(await refused(shop.delete(made))) == UNKNOWN
    assert told(await refused(shop.move(made, made["destination"]))) == UNKNOWN
    assert await shop.all() == {"fiat": [], "crypto": []}
    (again,) = await shop.add((ETHER, f"eip155:1:{LOWER}"))
    assert again["id"] != made["id"]


@pytest.mark.parametrize("profile", [SPEC, DEPLOYED, {}], ids=["spec", "deployed", "no header"])
async def test_a_settlement_is_its_merchants(desk, tenant, protocol, profile):
    account = Account(tenant, protocol, **profile, **{"Request-Id": "same"})
    shop, theirs = Shop(account, tenant.merchant.id), await desk.tenant()
    created = await account.ask(
        "CreateMerchant", {"merchantName": "Bar", "merchantEmail": "bar@bar.example"}
    )
    sister = Shop(account, created.body["merchant"]["id"])
    foreign = Shop(Account(theirs, protocol), theirs.merchant.id)
    pair = (ETHER, f"eip155:1:{LOWER}")
    (own,), (hers,), (others,) = (
        await shop.add(pair),
        await sister.add(pair),
        await foreign.add(pair),
    )
    expected = (404, "not_found" if profile is DEPLOYED else "invalid_params")
    errors = []
    for place in (hers, others, {"id": "crypto_0"}, {"id": "x/y z%2F"}):
        errors += [await refused(shop.move(place, pair[1])), await refused(shop.delete(place))]
    assert [told(error) for error in errors] == [expected] * 8
    assert len({str(error) for error in errors}) == 1
    for one, place in ((shop, own), (sister, hers), (foreign, others)):
        assert (await one.all())["crypto"] == [place]


async def test_bank_accounts_are_told_beside_the_chains(desk, shop, tenant):
    place = BankAccount(f"fiat_{shop.merchant}", shop.merchant, "pending_review", "sepa")
    await desk.service.app.store.write(destinations.put_bank_account(place))
    bank = {"id": place.id, "status": "pending_review", "bankType": "sepa"}
    assert await shop.all() == {"fiat": [bank], "crypto": []}
    profile = (await shop.ask("GetMerchant")).body["merchant"]
    assert profile["settlements"]["fiat"] == [bank]
    # a bank account is none of the settlements that a partner changes
    assert told(await refused(shop.delete(bank))) == UNKNOWN


async def test_repeated_calls_with_a_key_are_done_once(shop):
    pair = (ETHER, f"eip155:1:{LOWER}")
    items = {"settlements": [{"asset": pair[0], "destination": pair[1]}]}
    for name, body, settlement in (
        ("CreateCryptoSettlements", items, ""),
        ("UpdateCryptoSettlement", {"destination": f"eip155:1:{MIXED}"}, None),
        ("DeleteCryptoSettlement", None, None),
    ):
        known = (await shop.all())["crypto"]
        where = settlement if settlement is not None else known[0]["id"]
        first = await shop.ask(name, body, where, key=name)
        after = await shop.all()
        again = await shop.ask(name, body, where, key=name)
        assert (first.replayed, again.replayed) == (False, True)
        assert again.body == first.body
        assert await shop.all() == after
    other = {"settlements": [{"asset": SOL, "destination": pair[1]}]}
    error = await refused(shop.ask("CreateCryptoSettlements", other, key="CreateCryptoSettlements"))
    assert told(error) == (409, "idempotency_conflict")


# the money


class Till:
    """Payments of one merchant."""

    def __init__(self, desk, tenant):
        self.desk = desk
        self.tenant = tenant

    async def offer(self, payment_id=None, wallet=None):
        wallet = wallet or Wallet()
        await self.desk.chain.fund(wallet.address)
        if payment_id is None:
            made = await self.desk.ask("POST", "/v1/payments", self.tenant.headers, ORDER)
            payment_id = made.body["paymentId"]
        (option,) = (await self.desk.rest.options(payment_id, [wallet.account]))["options"]
        return payment_id, wallet, option

    async def pay(self, payment_id, wallet, option):
        """Pays and gives the payment as its merchant sees it."""
        await self.desk.rest.confirm(payment_id, option["id"], wallet.execute_all(option))
        assert (await self.desk.final(payment_id))["status"] == "succeeded"
        headers = self.tenant.headers
        return (await self.desk.ask("GET", f"/v1/payments/{payment_id}", headers)).body


@pytest.mark.both_chains
async def test_money_goes_where_the_merchant_wanted_it_when_the_wallet_asked(desk, shop, tenant):
    till, first, second = Till(desk, tenant), Wallet(), Wallet()
    asset = desk.env["FLORIN_EVM_ASSET"]
    (place,) = await shop.add((f"caip19/{asset}", first.account))
    known = await till.offer()
    paid = await till.pay(*await till.offer())
    assert await desk.chain.balance(first.address) == PRICE
    assert paid["settlement"]["successful"]["amount"]["value"] == str(PRICE)

    await shop.move(place, second.account)
    # a wallet that asks again is told another option, but the one it knows keeps its way
    _, _, other = await till.offer(known[0], known[1])
    assert other["id"] != known[2]["id"]
    await till.pay(*known)
    assert await desk.chain.balance(first.address) == 2 * PRICE
    assert await desk.chain.balance(second.address) == 0
    await till.pay(*await till.offer())
    assert await desk.chain.balance(second.address) == PRICE

    await shop.delete({"id": place["id"]})
    held = await till.pay(*await till.offer())
    assert held["settlement"] != paid["settlement"]
    assert await desk.chain.balance(first.address) == 2 * PRICE
    assert await desk.chain.balance(second.address) == PRICE
