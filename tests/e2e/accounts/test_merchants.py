"""A partner and its merchants, over REST and over gRPC."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime

import pytest
import pytest_asyncio

from tests.support.accounts import CAFE, PROTOCOLS, PartnerAccount, to_refusal
from tests.support.desk import DEPLOYED, ORDER, SPEC, PartnerTenant

UNKNOWN = (404, "merchant_not_found")
WRONG = (400, "params_validation")
CONFLICT = (409, "idempotency_conflict")
NEVER = "mrch_" + "0" * 17

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.parametrize("protocol", PROTOCOLS),
]


@pytest_asyncio.fixture(loop_scope="module")
async def tenant(desk) -> PartnerTenant:
    return await desk.tenant()


@pytest.fixture
def account(tenant, protocol) -> PartnerAccount:
    return PartnerAccount(tenant, protocol)


async def get(account, merchant):
    return (await account.ask("GetMerchant", merchant=merchant)).body["merchant"]


async def test_a_created_merchant_is_the_callers_and_takes_payments(desk, account, tenant):
    created = await account.create()
    assert re.fullmatch(r"mrch_[0-9A-Za-z]{17}", created["id"])
    assert created == {
        "id": created["id"],
        "name": CAFE["merchantName"],
        "email": CAFE["merchantEmail"],
        "status": "active",
        "iconUrl": CAFE["iconUrl"],
        "createdAt": datetime.fromtimestamp(desk.now, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z"),
    }
    assert await get(account, created["id"]) == {
        **created,
        "settlements": {"fiat": [], "crypto": []},
    }
    headers = {"Api-Key": tenant.secret, "Merchant-Id": created["id"]}
    payment = await desk.ask("POST", "/v1/payments", headers, ORDER)
    assert (payment.status, payment.body["live"]) == (201, False)
    info = await desk.rest.info(payment.body["paymentId"])
    assert info["merchant"] == {"name": CAFE["merchantName"], "iconUrl": CAFE["iconUrl"]}


async def test_a_live_key_creates_live_merchants(desk, protocol):
    tenant = await desk.tenant(live=True)
    created = await PartnerAccount(tenant, protocol).create()
    headers = {"Api-Key": tenant.secret, "Merchant-Id": created["id"]}
    assert (await desk.ask("POST", "/v1/payments", headers, ORDER)).body["live"] is True


async def test_support_contact_is_set_changed_and_removed(account):
    support = {"supportEmail": "help@cafe.example", "supportUrl": "https://cafe.example/help"}
    created = await account.create(**support)
    assert created.items() >= support.items()
    change = {"supportEmail": "ask@cafe.example"}
    changed = (await account.ask("UpdateMerchant", change, merchant=created["id"])).body["merchant"]
    assert changed == {**created, **change}
    removal = {"supportEmail": None, "supportUrl": None}
    await account.ask("UpdateMerchant", removal, merchant=created["id"])
    assert not support.keys() & (await get(account, created["id"])).keys()


@pytest.mark.parametrize(
    "support",
    [{"supportEmail": "a?cc=b@c.example"}, {"supportUrl": "javascript:alert(1)"}],
)
async def test_support_contact_that_pages_cannot_link_is_refused(account, support):
    created = await account.create()
    for call, body in (("CreateMerchant", {**CAFE, **support}), ("UpdateMerchant", support)):
        error = await account.get_refusal(call, body, merchant=created["id"])
        assert to_refusal(error) == WRONG
        assert [issue["field"] for issue in error.issues] == list(support)


@pytest.mark.parametrize("icon", [{"iconUrl": None}, {}])
async def test_a_logo_is_not_needed(account, icon):
    body = {**CAFE, **icon} if icon else {k: v for k, v in CAFE.items() if k != "iconUrl"}
    merchant = (await account.ask("CreateMerchant", body)).body["merchant"]
    assert merchant["iconUrl"] is None


@pytest.mark.parametrize("name", ["x", "名", "🍵", "x" * 256, "  Padded  ", "O'Neill & Söhne", "-"])
async def test_merchant_name_is_stored_as_written(account, name):
    created = await account.create(merchantName=name)
    assert (await get(account, created["id"]))["name"] == name


@pytest.mark.parametrize(
    "email",
    [
        "a@b.co",
        "first.last+tag@sub.shop-1.example",
        "o'neill@shop.example",
        "büro@münchen.example",
        "用户@例子.中国",
        "x" * 64 + "@shop.example",
        "a@" + ".".join(["x" * 61] * 4) + ".xy",
    ],
)
async def test_addresses_of_every_script_will_do(account, email):
    assert (await account.create(merchantEmail=email))["email"] == email


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("merchantName", text) for text in (None, "", " ", "\u00a0\u3000", "\u200b\u202e")),
        *(("merchantName", text) for text in ("\u3164", "\u0301", "a\tb", "a\x7f", "x" * 257)),
        *(("merchantEmail", text) for text in (None, "", "shop", "@shop.example", "a@", "a@b")),
        *(("merchantEmail", text) for text in ("a b@shop.example", "a@b@shop.example", "a@.com")),
        *(("merchantEmail", text) for text in ("a@shop..example", ".a@shop.example", "a@-x.com")),
        *(("merchantEmail", text) for text in ("a..b@shop.example", "a.@x.com", "a@x_y.com")),
        *(("merchantEmail", text) for text in ("A <a@shop.example>", "a@shop.example,b@x.com")),
        *(
            ("merchantEmail", text)
            for text in ("a@shop.example\n", "a\u202e@x.com", "a@\u3000.com")
        ),
        *(("merchantEmail", text) for text in ("a@" + "x" * 64 + ".com", "x" * 65 + "@x.com")),
        ("merchantEmail", "a@" + ".".join(["x" * 61] * 4) + ".xyz" + "z" * 5),
        *(("iconUrl", text) for text in ("", "logo.png", "//x.com/i", "http://x.com/i", "data:,x")),
        *(("iconUrl", text) for text in ("https://", "https://u:p@x.com/i", "https://u@x.com/i")),
        *(("iconUrl", text) for text in ("https://x.com/\n", "https://x.com/a b", "https://é.com")),
        *(("iconUrl", text) for text in ("https://x.com\\@y.com", "https://x.com:99999/")),
        ("iconUrl", "https://x.com/" + "x" * 2035),
    ],
)
async def test_invalid_merchant_field_is_refused(desk, account, field, value):
    created = await account.create()
    before = desk.rows()
    error = await account.get_refusal("CreateMerchant", {**CAFE, field: value})
    assert to_refusal(error) == WRONG
    assert [issue["field"] for issue in error.issues] == [field]
    if value is not None and (field, value) != ("iconUrl", ""):
        error = await account.get_refusal("UpdateMerchant", {field: value}, merchant=created["id"])
        assert to_refusal(error) == WRONG
        assert [issue["field"] for issue in error.issues] == [field]
    assert desk.rows() == before
    assert (await get(account, created["id"]))["name"] == CAFE["merchantName"]


async def test_all_invalid_fields_are_reported_together(account):
    error = await account.get_refusal(
        "CreateMerchant",
        {"merchantName": "\u200b", "merchantEmail": "shop", "iconUrl": "logo.png"},
    )
    assert [issue["field"] for issue in error.issues] == [
        "merchantName",
        "merchantEmail",
        "iconUrl",
    ]


async def test_repeated_create_merchant_creates_a_single_merchant(desk, account):
    first = await account.ask("CreateMerchant", CAFE, key="one")
    assert not first.replayed
    before = desk.rows()
    desk.clock.advance(60)
    again = await account.ask("CreateMerchant", CAFE, key="one")
    assert (again.body, again.replayed) == (first.body, True)
    error = await account.get_refusal("CreateMerchant", {**CAFE, "merchantName": "X"}, key="one")
    assert to_refusal(error) == CONFLICT
    assert desk.rows() == before
    # later changes of the merchant do not change the answer
    merchant = first.body["merchant"]["id"]
    await account.ask("DeleteMerchant", merchant=merchant)
    assert (await account.ask("CreateMerchant", CAFE, key="one")).body == first.body


async def test_a_creation_is_remembered_for_ever_a_change_for_days(desk, account):
    first = await account.ask("CreateMerchant", CAFE, key="create")
    merchant = first.body["merchant"]["id"]
    change = {"merchantName": "Bar"}
    await account.ask("UpdateMerchant", change, merchant=merchant, key="change")
    desk.clock.advance(400 * 86_400)
    again = await account.ask("CreateMerchant", CAFE, key="create")
    assert (again.body, again.replayed) == (first.body, True)
    late = await account.ask("UpdateMerchant", change, merchant=merchant, key="change")
    assert not late.replayed


async def test_both_protocols_share_keys(tenant, protocol):
    here = PartnerAccount(tenant, protocol)
    there = PartnerAccount(tenant, next(other for other in PROTOCOLS if other != protocol))
    first = await here.ask("CreateMerchant", CAFE, key="shared")
    again = await there.ask("CreateMerchant", CAFE, key="shared")
    assert (again.body, again.replayed) == (first.body, True)


async def test_a_key_is_its_partners_and_its_calls(desk, account, protocol):
    first = await account.create(key="one")
    other = PartnerAccount(await desk.tenant(), protocol)
    assert (await other.create(key="one"))["id"] != first["id"]
    # the same key for another call or another merchant is another request
    body = {"merchantName": "X"}
    error = await account.get_refusal("UpdateMerchant", body, merchant=first["id"], key="one")
    assert to_refusal(error) == CONFLICT


async def test_a_refused_creation_leaves_its_key_unused(account):
    error = await account.get_refusal("CreateMerchant", {**CAFE, "merchantName": " "}, key="one")
    assert to_refusal(error) == WRONG
    assert not (await account.ask("CreateMerchant", CAFE, key="one")).replayed


async def test_concurrent_create_merchant_calls_create_a_single_merchant(desk, account):
    before = desk.rows()["merchant"]
    answers = await asyncio.gather(
        *(account.ask("CreateMerchant", CAFE, key="one") for _ in range(20))
    )
    assert len({answer.body["merchant"]["id"] for answer in answers}) == 1
    assert [answer.replayed for answer in answers].count(False) == 1
    assert desk.rows()["merchant"] == before + 1


# changes


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"merchantName": "Bar"}, {"name": "Bar"}),
        ({"merchantEmail": "bar@bar.example"}, {"email": "bar@bar.example"}),
        ({"iconUrl": "https://bar.example/i"}, {"iconUrl": "https://bar.example/i"}),
        ({"iconUrl": None}, {"iconUrl": None}),
        (
            {"merchantName": "Bar", "merchantEmail": None, "iconUrl": None},
            {"name": "Bar", "iconUrl": None},
        ),
    ],
)
async def test_merchant_update_keeps_unnamed_fields(account, change, expected):
    created = await account.create()
    answer = await account.ask("UpdateMerchant", change, merchant=created["id"])
    assert answer.body == {"merchant": {**created, **expected}}
    assert (await get(account, created["id"])).items() >= {**created, **expected}.items()


@pytest.mark.parametrize("change", [{}, {"merchantName": None}, {"unknown": 1, "status": "x"}])
async def test_a_change_of_nothing_is_refused(account, change):
    created = await account.create()
    error = await account.get_refusal("UpdateMerchant", change, merchant=created["id"])
    assert to_refusal(error) == WRONG
    assert "merchantName" in error.message
    # a fault of the body is reported before the resource is looked up
    assert to_refusal(await account.get_refusal("UpdateMerchant", change, merchant=NEVER)) == WRONG


async def test_changes_at_the_same_time_all_count(account):
    created = await account.create()
    changes = [
        {"merchantName": "Bar"},
        {"merchantEmail": "bar@bar.example"},
        {"iconUrl": None},
    ] * 5
    await asyncio.gather(
        *(account.ask("UpdateMerchant", change, merchant=created["id"]) for change in changes)
    )
    seen = await get(account, created["id"])
    assert (seen["name"], seen["email"], seen["iconUrl"]) == ("Bar", "bar@bar.example", None)


async def test_repeated_update_does_not_undo_a_later_update(account):
    merchant = (await account.create())["id"]
    body = {"merchantName": "Bar"}
    first = await account.ask("UpdateMerchant", body, merchant=merchant, key="rename")
    await account.ask("UpdateMerchant", {"merchantName": "Pub"}, merchant=merchant)
    again = await account.ask("UpdateMerchant", body, merchant=merchant, key="rename")
    assert (again.body, again.replayed) == (first.body, True)
    assert (await get(account, merchant))["name"] == "Pub"
    error = await account.get_refusal("UpdateMerchant", body, merchant=NEVER, key="rename")
    assert to_refusal(error) == CONFLICT


async def test_buyers_see_a_new_name_at_once(desk, account, tenant):
    payment = await desk.ask("POST", "/v1/payments", tenant.headers, ORDER)
    change = {"merchantName": "Neu", "iconUrl": "https://neu.example/i"}
    await account.ask("UpdateMerchant", change, merchant=tenant.merchant.id)
    info = await desk.rest.info(payment.body["paymentId"])
    assert info["merchant"] == {"name": "Neu", "iconUrl": "https://neu.example/i"}


async def test_a_suspended_merchant_can_be_looked_at_and_changed(account, tenant):
    await tenant.change_merchant(status="suspended")
    merchant = tenant.merchant.id
    assert (await get(account, merchant))["status"] == "suspended"
    body = {"merchantName": "Bar"}
    answer = await account.ask("UpdateMerchant", body, merchant=merchant)
    assert answer.body["merchant"]["status"] == "suspended"


# deletion


async def test_a_deleted_merchant_is_gone_but_for_its_payments(desk, account, tenant):
    merchant = tenant.merchant.id
    created = await desk.ask("POST", "/v1/payments", tenant.headers, ORDER)
    deletion = {"id": merchant, "deleted": True}
    for _ in range(3):
        assert (await account.ask("DeleteMerchant", merchant=merchant)).body == deletion
        desk.clock.advance(1)
    # no new payments from the very next call on
    answer = await desk.ask("POST", "/v1/payments", tenant.headers, ORDER)
    assert answer.refusal == UNKNOWN
    place = {"asset": "eip155:1/slip44:60", "destination": f"eip155:1:0x{'11' * 20}"}
    for name, body in (
        ("GetMerchant", None),
        ("UpdateMerchant", {"merchantName": "Bar"}),
        ("ListSettlements", None),
        ("CreateCryptoSettlements", {"settlements": [place]}),
        ("UpdateCryptoSettlement", {"destination": place["destination"]}),
        ("DeleteCryptoSettlement", None),
    ):
        assert (
            to_refusal(await account.get_refusal(name, body, merchant=merchant, id="crypto_0"))
            == UNKNOWN
        )
    assert (await account.ask("ListMerchants")).body == {
        "merchants": [],
        "totalCount": 0,
        "nextCursor": None,
    }
    text = f"/v1/payments/{created.body['paymentId']}"
    detail = await desk.ask("GET", text, tenant.headers)
    assert detail.body["merchant"]["name"] == tenant.merchant.name
    assert (await desk.ask("POST", f"{text}/cancel", tenant.headers)).status == 200


async def test_a_deletion_with_a_key_is_repeated_as_it_was(account):
    merchant = (await account.create())["id"]
    first = await account.ask("DeleteMerchant", merchant=merchant, key="delete")
    again = await account.ask("DeleteMerchant", merchant=merchant, key="delete")
    assert (again.body, again.replayed) == (first.body, True)


# tenants and modes


@pytest.mark.parametrize("profile", [SPEC, DEPLOYED, {}], ids=["spec", "deployed", "no header"])
@pytest.mark.parametrize("live", [False, True], ids=["other partner", "other mode"])
async def test_foreign_merchant_is_refused_as_unknown(desk, tenant, protocol, live, profile):
    theirs = await desk.tenant(live=live)
    if live:
        # the same partner, but its live mode
        await theirs.change_merchant(partner_id=tenant.partner.id)
    account = PartnerAccount(tenant, protocol, **profile, **{"Request-Id": "same"})
    expected = (404, "not_found") if profile is DEPLOYED else UNKNOWN
    place = {"asset": "eip155:1/slip44:60", "destination": f"eip155:1:0x{'11' * 20}"}
    before = desk.rows()
    for name, body in (
        ("GetMerchant", None),
        ("UpdateMerchant", {"merchantName": "Mine"}),
        ("DeleteMerchant", None),
        ("ListSettlements", None),
        ("CreateCryptoSettlements", {"settlements": [place]}),
        ("UpdateCryptoSettlement", {"destination": place["destination"]}),
        ("DeleteCryptoSettlement", None),
    ):
        errors = [
            await account.get_refusal(name, body, merchant=merchant, id="crypto_0", key=key)
            for merchant, key in ((theirs.merchant.id, "a"), (NEVER, "b"), ("../x y/%2F", "c"))
        ]
        assert [to_refusal(error) for error in errors] == [expected] * 3
        assert len({str(error) for error in errors}) == 1
    assert desk.rows() == before
    page = (await account.ask("ListMerchants")).body
    assert theirs.merchant.id not in [merchant["id"] for merchant in page["merchants"]]
    assert (await account.ask("ListMerchants", {"search": theirs.merchant.id})).body == {
        "merchants": [],
        "totalCount": 0,
        "nextCursor": None,
    }
    headers = theirs.headers
    assert (await desk.ask("POST", "/v1/payments", headers, ORDER)).status == (404 if live else 201)
