"""The operator's changes to accounts, and their effect on callers."""

from __future__ import annotations

import re
from typing import Any

import pytest
import pytest_asyncio
from florin.v1 import account_pb2, partner_pb2
from florin_server.domain.versions import NEWEST_STABLE_VERSION

from tests.support.api import ApiCallError
from tests.support.installation import open_operator
from tests.support.service_harness import CREATE, ORDER

pytestmark = pytest.mark.asyncio(loop_scope="module")

PREVIEW = "2026-02-19.preview"
ICON = "https://purse.example/icon.png"
ACTIVE, SUSPENDED = partner_pb2.PARTNER_STATUS_ACTIVE, partner_pb2.PARTNER_STATUS_SUSPENDED


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def operator(desk):
    async with open_operator(desk.service) as operator:
        yield operator


@pytest.fixture
def refusal(desk, operator):
    """Return why the operator is refused; assert that nothing changed."""

    async def refusal(method: str, request: Any) -> ApiCallError:
        before = desk.rows()
        with pytest.raises(ApiCallError) as caught:
            await operator.call(method, request)
        assert desk.rows() == before
        return caught.value

    return refusal


def partners() -> partner_pb2.ListPartnersRequest:
    return partner_pb2.ListPartnersRequest()


def named(name: str = "Tea & Co") -> partner_pb2.CreatePartnerRequest:
    return partner_pb2.CreatePartnerRequest(name=name)


def wallet(**changes: Any) -> partner_pb2.RegisterWalletRequest:
    return partner_pb2.RegisterWalletRequest(**{"name": "Purse", **changes})


def imported(partner_id: str, merchant_id: str, **changes: Any) -> Any:
    values = {"name": "Tea House", "email": "tea@house.example", **changes}
    return partner_pb2.ImportMerchantRequest(
        partner_id=partner_id, merchant_id=merchant_id, **values
    )


def pin(version: str = PREVIEW, **account: str) -> partner_pb2.SetApiVersionRequest:
    return partner_pb2.SetApiVersionRequest(version=version, **account)


def describe_error(error: ApiCallError) -> tuple[int, str, list[str]]:
    return error.http, error.code, [issue["field"] for issue in error.issues]


async def seen(desk, headers: dict[str, str], method="GET", path="/v1/gateway/payment/pay_none"):
    """Return the answer to these credentials for a payment that does not exist."""
    return (await desk.ask(method, path, headers)).refusal


PASSED = (404, "payment_not_found")


# partners


async def test_partner_is_created_active_and_pinned_to_the_newest_stable_version(desk, operator):
    # newer than the demo's
    desk.clock.advance(1)
    created = await operator.call("CreatePartner", named("Tea & Co"))
    assert re.fullmatch(r"prtn_[0-9A-Za-z]{17}", created.id)
    assert (created.name, created.status, created.version_pin) == (
        "Tea & Co",
        ACTIVE,
        NEWEST_STABLE_VERSION,
    )
    assert created.created_at.ToMicroseconds() == desk.clock.now_us()
    desk.clock.advance(1)
    later = await operator.call("CreatePartner", named("Later"))
    assert list((await operator.call("ListPartners", partners())).partners[:2]) == [later, created]


@pytest.mark.parametrize("name", ["", "x" * 257, "a\nb", "\u3164"])
async def test_partner_without_a_readable_name_is_refused(refusal, name):
    error = await refusal("CreatePartner", named(name))
    assert describe_error(error) == (400, "params_validation", ["name"])


async def test_a_suspended_partner_is_refused_at_once_until_it_is_resumed(desk, operator):
    tenant = await desk.tenant()
    assert await seen(desk, tenant.headers) == PASSED
    for status, answer in ((SUSPENDED, (403, "forbidden")), (ACTIVE, PASSED)):
        request = partner_pb2.SetPartnerStatusRequest(partner_id=tenant.partner.id, status=status)
        for _ in range(2):
            assert (await operator.call("SetPartnerStatus", request)).status == status
        assert await seen(desk, tenant.headers) == answer
        assert await seen(desk, tenant.headers, "GET", "/v1/payments/pay_none") == answer
    # no other partner is changed
    assert await seen(desk, desk.rest.merchant) == PASSED


async def test_invalid_partner_status_is_refused(desk, refusal):
    tenant = await desk.tenant()
    for status in (0, 9):
        request = partner_pb2.SetPartnerStatusRequest(partner_id=tenant.partner.id, status=status)
        error = await refusal("SetPartnerStatus", request)
        assert describe_error(error) == (400, "params_validation", ["status"])
    request = partner_pb2.SetPartnerStatusRequest(partner_id="prtn_1", status=ACTIVE)
    error = await refusal("SetPartnerStatus", request)
    assert describe_error(error) == (404, "partner_not_found", [])


# wallets


async def test_a_wallet_is_registered_used_and_revoked_for_good(desk, operator):
    created = await operator.call("RegisterWallet", wallet(icon_url=ICON))
    assert re.fullmatch(r"app_[0-9A-Za-z]{17}", created.app_id)
    assert (created.name, created.icon_url, created.live) == ("Purse", ICON, False)
    assert (created.version_pin, created.HasField("revoked_at")) == (NEWEST_STABLE_VERSION, False)
    headers = {"App-Id": created.app_id, "Client-Id": "phone-1"}
    assert await seen(desk, headers) == PASSED

    request = partner_pb2.RevokeWalletRequest(app_id=created.app_id)
    revoked = await operator.call("RevokeWallet", request)
    assert revoked.revoked_at.ToMicroseconds() == desk.clock.now_us()
    assert await seen(desk, headers) == (401, "invalid_app_id")
    desk.clock.advance(1)
    assert await operator.call("RevokeWallet", request) == revoked

    later = await operator.call("RegisterWallet", wallet(live=True))
    assert (later.live, later.HasField("icon_url")) == (True, False)
    listed = await operator.call("ListWallets", partner_pb2.ListWalletsRequest())
    # apps that were registered at the same time are ignored
    ours = [
        each_wallet
        for each_wallet in listed.wallets
        if each_wallet.app_id in {created.app_id, later.app_id}
    ]
    assert ours == [later, revoked]


async def test_a_live_wallet_sees_live_payments_only(desk, operator):
    created = await operator.call("RegisterWallet", wallet(live=True))
    payment_id = (await desk.rest.create(ORDER))["paymentId"]
    headers = {"App-Id": created.app_id, "Client-Id": "phone-1"}
    path = f"/v1/gateway/payment/{payment_id}"
    assert await seen(desk, headers, "GET", path) == PASSED
    assert (await desk.ask("GET", path, desk.rest.wallet)).status == 200


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "\u2800"}, "name"),
        ({"name": "x" * 257}, "name"),
        ({"icon_url": "http://purse.example/i"}, "iconUrl"),
        ({"icon_url": "https://me@purse.example/i"}, "iconUrl"),
        ({"icon_url": "https://purse.example/" + "i" * 2048}, "iconUrl"),
        ({"icon_url": ""}, "iconUrl"),
    ],
)
async def test_a_wallet_that_cannot_be_shown_is_not_registered(refusal, changes, field):
    error = await refusal("RegisterWallet", wallet(**changes))
    assert describe_error(error) == (400, "params_validation", [field])


async def test_a_wallet_that_is_not_there_is_not_revoked(refusal):
    request = partner_pb2.RevokeWalletRequest(app_id="app_1")
    assert describe_error(await refusal("RevokeWallet", request)) == (404, "wallet_not_found", [])


# versions


async def accounts(desk) -> dict[str, tuple[str, dict[str, str]]]:
    """Return an account of every kind that has a pin: its id and its credentials."""
    tenant, app = await desk.tenant(), await desk.wallet_app()
    key_id, secret = await desk.key(None)
    return {
        "partner_id": (tenant.partner.id, tenant.headers),
        "app_id": (app["App-Id"], app),
        "key_id": (key_id, {"Api-Key": secret}),
    }


async def test_version_pin_is_the_default_and_the_minimum_for_callers(desk, operator):
    for kind, (id_, headers) in (await accounts(desk)).items():
        old = {**headers, "Pay-Version": NEWEST_STABLE_VERSION}
        assert await seen(desk, old) == PASSED
        for _ in range(2):
            answer = await operator.call("SetApiVersion", pin(**{kind: id_}))
            assert answer.version_pin == PREVIEW
        assert await seen(desk, old) == (400, "api_version_downgrade")
        assert await seen(desk, {**headers, "Pay-Version": PREVIEW}) == PASSED
        answer = await desk.ask("GET", "/v1/gateway/payment/pay_none", headers)
        assert answer.headers["Pay-Version"] == PREVIEW


async def test_a_pin_never_moves_back(desk, operator, refusal):
    for kind, (id_, _) in (await accounts(desk)).items():
        await operator.call("SetApiVersion", pin(NEWEST_STABLE_VERSION, **{kind: id_}))
        await operator.call("SetApiVersion", pin(**{kind: id_}))
        error = await refusal("SetApiVersion", pin(NEWEST_STABLE_VERSION, **{kind: id_}))
        assert describe_error(error) == (400, "api_version_downgrade", [])
        assert error.details == {"pinned": PREVIEW}


async def test_version_pins_are_listed_with_the_accounts(desk, operator):
    mine = await accounts(desk)
    for kind, (id_, _) in mine.items():
        await operator.call("SetApiVersion", pin(**{kind: id_}))
    wallets = (await operator.call("ListPartners", partners())).partners
    assert {item.version_pin for item in wallets if item.id == mine["partner_id"][0]} == {PREVIEW}
    wallets = (await operator.call("ListWallets", partner_pb2.ListWalletsRequest())).wallets
    assert {item.version_pin for item in wallets if item.app_id == mine["app_id"][0]} == {PREVIEW}
    wallets = (await operator.call("ListApiKeys", partner_pb2.ListApiKeysRequest())).keys
    assert {item.version_pin for item in wallets if item.key_id == mine["key_id"][0]} == {PREVIEW}
    assert {item.version_pin for item in wallets if item.partner_id} == {""}


@pytest.mark.parametrize(
    ("version", "code"),
    [
        ("latest", "invalid_api_version"),
        ("2026-02-30", "invalid_api_version"),
        ("2026-02-19", "unknown_api_version"),
        ("2026-02-17", "unknown_api_version"),
    ],
)
async def test_pin_to_an_unpublished_version_is_refused(desk, refusal, version, code):
    for kind, (id_, _) in (await accounts(desk)).items():
        error = await refusal("SetApiVersion", pin(version, **{kind: id_}))
        assert describe_error(error) == (400, code, [])


@pytest.mark.parametrize(
    ("account", "answer"),
    [
        ({"partner_id": "prtn_1"}, (404, "partner_not_found", [])),
        ({"app_id": "app_1"}, (404, "wallet_not_found", [])),
        ({"key_id": "12345678"}, (404, "api_key_not_found", [])),
        ({}, (400, "params_validation", ["partnerId"])),
        ({"partner_id": "prtn_1", "app_id": "app_1"}, (400, "params_validation", ["partnerId"])),
        ({"app_id": "app_1", "key_id": "12345678"}, (400, "params_validation", ["partnerId"])),
        ({"key_id": "12345678", "version": ""}, (400, "params_validation", ["version"])),
    ],
)
async def test_version_pin_requires_a_single_account(refusal, account, answer):
    assert describe_error(await refusal("SetApiVersion", pin(**account))) == answer


async def test_a_partner_key_has_the_pin_of_its_partner(desk, refusal):
    tenant = await desk.tenant()
    error = await refusal("SetApiVersion", pin(key_id=tenant.key_id))
    assert describe_error(error) == (400, "params_validation", ["keyId"])
    assert "set the version of its partner" in error.message


# merchants


async def test_an_imported_merchant_takes_a_payment_under_its_id(desk, operator):
    tenant = await desk.tenant()
    request = imported(tenant.partner.id, "Tea-House_1", icon_url=ICON)
    created_created = await operator.call("ImportMerchant", request)
    assert (created_created.partner_id, created_created.live) == (tenant.partner.id, False)
    assert created_created.merchant == account_pb2.MerchantRecord(
        id="Tea-House_1",
        name="Tea House",
        email="tea@house.example",
        status=account_pb2.MERCHANT_STATUS_ACTIVE,
        icon_url=ICON,
        created_at=created_created.merchant.created_at,
    )
    headers = {**tenant.headers, "Merchant-Id": "Tea-House_1"}
    created = await desk.ask("POST", CREATE, headers, ORDER)
    assert created.status == 201
    path = f"/v1/gateway/payment/{created.body['paymentId']}"
    info = (await desk.ask("GET", path, desk.rest.wallet)).body
    assert info["merchant"] == {"name": "Tea House", "iconUrl": ICON}
    own = (await desk.ask("GET", "/v1/merchants/Tea-House_1", tenant.headers)).body["merchant"]
    assert (own["name"], own["email"]) == ("Tea House", "tea@house.example")


async def test_an_id_that_anybody_has_is_not_imported_again(desk, operator, refusal):
    owner, other = await desk.tenant(), await desk.tenant()
    live = await operator.call("ImportMerchant", imported(owner.partner.id, "tea-live", live=True))
    assert live.live
    deleted = await desk.merchant(owner, deleted_at_us=desk.clock.now_us())
    for taken in (owner.merchant.id, "tea-live", deleted.id):
        for partner_id, mode in ((owner.partner.id, False), (other.partner.id, True)):
            error = await refusal("ImportMerchant", imported(partner_id, taken, live=mode))
            assert describe_error(error) == (409, "merchant_exists", [])
    own = (await desk.ask("GET", f"/v1/merchants/{owner.merchant.id}", owner.headers)).body
    assert own["merchant"]["name"] == owner.merchant.name


@pytest.mark.parametrize(
    ("merchant_id", "changes", "field"),
    [
        ("", {}, "merchantId"),
        ("a b", {}, "merchantId"),
        ("x" * 65, {}, "merchantId"),
        ("new", {"name": ""}, "name"),
        ("new", {"name": "\u3164"}, "name"),
        ("new", {"email": ""}, "email"),
        ("new", {"email": "tea.house.example"}, "email"),
        ("new", {"icon_url": "ftp://tea.example/i"}, "iconUrl"),
    ],
)
async def test_a_merchant_that_cannot_be_is_not_imported(
    desk, refusal, merchant_id, changes, field
):
    tenant = await desk.tenant()
    error = await refusal("ImportMerchant", imported(tenant.partner.id, merchant_id, **changes))
    assert describe_error(error) == (400, "params_validation", [field])


async def test_import_of_a_merchant_without_a_partner_is_refused(refusal):
    error = await refusal("ImportMerchant", imported("prtn_1", "new"))
    assert describe_error(error) == (404, "partner_not_found", [])


async def test_support_contact_of_a_merchant_is_the_operators_to_set(desk, operator, refusal):
    tenant = await desk.tenant()
    request = partner_pb2.SetMerchantSupportRequest(
        merchant_id=tenant.merchant.id, support_email="help@tea.example"
    )
    assert (await operator.call("SetMerchantSupport", request)).merchant.support_email
    path = f"/v1/merchants/{tenant.merchant.id}"
    own = (await desk.ask("GET", path, tenant.headers)).body["merchant"]
    assert own["supportEmail"] == "help@tea.example"
    request.support_email = "no address"
    error = await refusal("SetMerchantSupport", request)
    assert describe_error(error) == (400, "params_validation", ["supportEmail"])
    request = partner_pb2.SetMerchantSupportRequest(merchant_id="mrch_none")
    error = await refusal("SetMerchantSupport", request)
    assert describe_error(error) == (404, "merchant_not_found", [])


def status_of(merchant_id: str, status: int) -> partner_pb2.SetMerchantStatusRequest:
    return partner_pb2.SetMerchantStatusRequest(merchant_id=merchant_id, status=status)


async def test_a_merchant_that_is_stopped_takes_no_new_payments(desk, operator):
    tenant = await desk.tenant()
    old = (await desk.ask("POST", CREATE, tenant.headers, ORDER)).body["paymentId"]
    for name in ("INACTIVE", "SUSPENDED", "ACTIVE"):
        status = account_pb2.MerchantStatus.Value(f"MERCHANT_STATUS_{name}")
        changed = await operator.call("SetMerchantStatus", status_of(tenant.merchant.id, status))
        assert (changed.merchant.status, changed.partner_id) == (status, tenant.partner.id)
        path = f"/v1/merchants/{tenant.merchant.id}"
        shown = (await desk.ask("GET", path, tenant.headers)).body["merchant"]
        assert shown["status"] == name.lower()
        answer = await desk.ask("POST", CREATE, tenant.headers, ORDER)
        assert answer.status == (201 if name == "ACTIVE" else 403)
        # it keeps its own objects
        assert (await desk.ask("GET", f"/v1/payments/{old}", tenant.headers)).status == 200


async def test_only_a_merchant_that_is_there_changes_its_status(desk, refusal):
    tenant = await desk.tenant()
    for status in (0, 9):
        error = await refusal("SetMerchantStatus", status_of(tenant.merchant.id, status))
        assert describe_error(error) == (400, "params_validation", ["status"])
    await tenant.change_merchant(deleted_at_us=desk.clock.now_us())
    for merchant_id in (tenant.merchant.id, "mrch_1"):
        error = await refusal("SetMerchantStatus", status_of(merchant_id, 1))
        assert describe_error(error) == (404, "merchant_not_found", [])


def bank(merchant_id: str, **changes: str) -> partner_pb2.AddFiatSettlementRequest:
    values = {"status": "pending", "bank_type": "iban", **changes}
    return partner_pb2.AddFiatSettlementRequest(merchant_id=merchant_id, **values)


async def test_bank_account_is_listed_among_the_settlements(desk, operator):
    tenant = await desk.tenant()
    created = await operator.call("AddFiatSettlement", bank(tenant.merchant.id))
    assert re.fullmatch(r"fiat_[0-9A-Za-z]{17}", created.id)
    assert (created.status, created.bank_type) == ("pending", "iban")
    path = f"/v1/merchants/{tenant.merchant.id}/settlements"
    shown = (await desk.ask("GET", path, tenant.headers)).body["fiat"]
    assert shown == [{"id": created.id, "status": "pending", "bankType": "iban"}]


async def test_only_a_merchant_that_is_there_has_a_bank_account(desk, refusal):
    tenant = await desk.tenant()
    for changes, field in (({"status": ""}, "status"), ({"bank_type": "x" * 65}, "bankType")):
        error = await refusal("AddFiatSettlement", bank(tenant.merchant.id, **changes))
        assert describe_error(error) == (400, "params_validation", [field])
    await tenant.change_merchant(deleted_at_us=desk.clock.now_us())
    for merchant_id in (tenant.merchant.id, "mrch_1"):
        error = await refusal("AddFiatSettlement", bank(merchant_id))
        assert describe_error(error) == (404, "merchant_not_found", [])


# keys


async def test_a_key_is_replaced_without_a_gap(desk, operator):
    tenant = await desk.tenant()
    request = partner_pb2.CreateApiKeyRequest(
        kind=partner_pb2.API_KEY_KIND_PARTNER, partner_id=tenant.partner.id
    )
    second = await operator.call("CreateApiKey", request)
    new = {**tenant.headers, "Api-Key": second.secret}
    for headers in (tenant.headers, new):
        assert (await desk.ask("POST", CREATE, headers, ORDER)).status == 201
    await operator.call("RevokeApiKey", partner_pb2.RevokeApiKeyRequest(key_id=tenant.key_id))
    assert (await desk.ask("POST", CREATE, tenant.headers, ORDER)).refusal == (
        401,
        "invalid_api_key",
    )
    assert (await desk.ask("POST", CREATE, new, ORDER)).status == 201


async def test_a_partner_key_is_for_a_partner_that_there_is(refusal):
    expected = partner_pb2.CreateApiKeyRequest
    kind = partner_pb2.API_KEY_KIND_PARTNER
    error = await refusal("CreateApiKey", expected(kind=kind, partner_id="prtn_1"))
    assert describe_error(error) == (404, "partner_not_found", [])
    error = await refusal("CreateApiKey", expected(kind=kind))
    assert describe_error(error) == (400, "params_validation", ["partnerId"])
    error = await refusal("CreateApiKey", expected())
    assert describe_error(error) == (400, "params_validation", ["kind"])
    request = partner_pb2.RevokeApiKeyRequest(key_id="12345678")
    assert describe_error(await refusal("RevokeApiKey", request)) == (404, "api_key_not_found", [])


async def test_change_by_another_process_applies_within_five_seconds(desk):
    """The other process does not notify this one, so cached keys must expire."""
    tenant = await desk.tenant()
    assert await seen(desk, tenant.headers) == PASSED
    await tenant.change_partner(is_published=False, status="suspended")
    desk.clock.advance(5)
    assert await seen(desk, tenant.headers) == (403, "forbidden")
