"""Test the Python client's requests: every public call, keys, pages and credentials."""

from __future__ import annotations

import datetime as dt
import inspect
import re
from typing import get_args

import pytest
from florin.v1 import access_pb2, account_pb2, listing_pb2
from florin_client import AsyncClient, Client, aio, sync
from florin_client.calls import admin, gateway, merchant, records, webhook
from florin_client.setup import is_local
from florin_server.app.servers.grpc_server import PUBLIC_SERVICES

BUILDERS = {
    "MerchantService": merchant,
    "GatewayService": gateway,
    "AdminService": admin,
    # the rest of its calls
    "records": records,
    "WebhookService": webhook,
}
# REST only: deprecated since gRPC exists
LEFT_OUT = {"list_payments_legacy"}
NAMED_OTHERWISE = {
    "start_ts": "start",
    "end_ts": "end",
    "merchant_id": "merchant_ids",
    "settlements": "destinations",
    "id": "settlement_id",
    "results": "outputs",
    "collected_data_json": "collected_data",
}
OF_OTHERS = {"WebhookService": {"id": "endpoint_id"}, "records": {"id": "note_id"}}
EVERY_CALL = merchant.KeyedMerchantCallOptions.__optional_keys__
# the client sends the first, and the second is superseded
NOT_ASKED = {"cursor", "asset"}


def snake(name):
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


RPCS = [
    (service.name, method)
    for service in PUBLIC_SERVICES
    for method in service.methods
    if snake(method.name) not in LEFT_OUT
]


@pytest.mark.parametrize(("service", "method"), RPCS, ids=lambda item: getattr(item, "name", item))
def test_every_call_of_the_public_listener_is_there_with_every_field(service, method):
    name, kind = snake(method.name), service.removesuffix("Service")
    for created in (getattr(sync, kind), getattr(aio, f"Async{kind}")):
        assert getattr(created, name).__doc__
    place = "records" if hasattr(records, name) else service
    build = getattr(BUILDERS[place], name)
    (options,) = get_args(eval(build.__annotations__["options"], vars(BUILDERS[place])))
    # options of every call are no fields of the request
    filters = options.__optional_keys__ - EVERY_CALL
    parameters = {*inspect.signature(build).parameters, *filters}
    fields = {field.name for field in method.input_type.fields} - NOT_ASKED
    own_names = OF_OTHERS.get(place, {})
    assert {
        field
        for field in fields
        if not {field, NAMED_OTHERWISE.get(field, field), own_names.get(field)} & parameters
    } == set()


def calls():
    """Yield the calls that are only retried with a key, and some that need none."""
    yield merchant.create_payment(amount=("iso4217/USD", 1250)), True
    yield merchant.cancel_payment("pay_1"), True
    yield merchant.create_refund("pay_1"), True
    yield merchant.confirm_deposit_claim("pay_1", claim_id="c"), True
    yield merchant.reject_deposit_claim("pay_1", claim_id="c"), True
    yield gateway.confirm_payment("pay_1", option_id="o", outputs=["0x"]), False
    yield gateway.cancel_payment("pay_1"), False
    yield admin.create_merchant(merchant_name="n", merchant_email="e"), True
    yield admin.update_merchant("m", merchant_name="n"), True
    yield admin.delete_merchant("m"), True
    yield admin.create_crypto_settlements("m", destinations={"a": "b"}), True
    yield admin.update_crypto_settlement("m", "c", destination="d"), True
    yield admin.delete_crypto_settlement("m", "c"), True
    yield admin.simulate_payment("p", outcome=account_pb2.SIMULATED_OUTCOME_FAILED), True
    yield admin.advance_test_clock(seconds=1), True
    yield admin.get_test_clock(), False
    yield merchant.get_payment("pay_1"), False
    yield gateway.get_payment_options("pay_1", accounts=[]), False
    yield gateway.fetch_action("pay_1", option_id="o"), False


def test_call_has_an_idempotency_key_exactly_if_its_rule_requires_it():
    existing = set()
    for call, keyed in calls():
        sent = dict(call.build_metadata({"api-key": "k"}))
        assert sent["api-key"] == "k"
        assert re.fullmatch(r"[A-Za-z0-9._-]{1,64}", sent["request-id"])
        assert ("idempotency-key" in sent) == keyed
        existing |= {sent["request-id"], sent.get("idempotency-key", "")}
    stored = {
        access_pb2.IDEMPOTENCY_RULE_OPTIONAL,
        access_pb2.IDEMPOTENCY_RULE_REQUIRED,
        access_pb2.IDEMPOTENCY_RULE_PERMANENT,
    }
    rules = {
        method.name
        for _, method in RPCS
        if method.GetOptions().Extensions[access_pb2.access].idempotency in stored
    }
    created = {(call.rpc.service, call.rpc.name) for call, keyed in calls() if keyed}
    assert {name for _, name in created} == rules
    assert len(existing - {""}) == 2 * len(created) + 6


def test_a_caller_has_its_own_key_and_merchant():
    call = merchant.create_payment(
        amount=("iso4217/USD", "5"), idempotency_key="o-1", merchant_id="m"
    )
    sent = dict(call.build_metadata({"merchant-id": "other"}))
    assert (sent["idempotency-key"], sent["merchant-id"]) == ("o-1", "m")
    assert call.request.amount.value == "5"


@pytest.mark.parametrize("value", [12.5, True, None])
def test_an_amount_is_a_whole_number(value):
    with pytest.raises(ValueError, match="whole number"):
        merchant.create_payment(amount=("iso4217/USD", value))


def test_a_time_has_a_zone():
    with pytest.raises(ValueError, match="no time zone"):
        merchant.list_payments(start=dt.datetime(2026, 11, 22, 12))  # noqa: DTZ001  (no zone)
    listing = merchant.list_payments(start=dt.datetime(2026, 11, 22, 12, tzinfo=dt.UTC))
    assert listing.request.start_ts.seconds == 1795348800


def test_pages_are_requested_with_the_same_filters_until_the_last():
    listing = merchant.list_merchant_payments(reference_id="order", limit=2, timeout=3)
    first = listing.build_first_call()
    assert not first.request.HasField("cursor")
    rows = [listing_pb2.PaymentRow(payment_id=str(number)) for number in range(2)]
    page = listing_pb2.ListPaymentsResponse(data=rows, next_cursor="abc")
    following = listing.find_next_call(page)
    assert following.request.cursor == "abc"
    assert (following.request.reference_id, following.request.limit) == ("order", 2)
    assert (first.timeout, following.timeout) == (3, 3)
    assert [row.payment_id for row in listing.get_rows(page)] == ["0", "1"]
    assert listing.find_next_call(listing_pb2.ListPaymentsResponse(data=rows)) is None
    assert not first.request.HasField("cursor")


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({}, "either an api_key"),
        ({"api_key": "a", "app_id": "b", "client_id": "c"}, "either an api_key"),
        ({"app_id": "b"}, "and client_id together"),
        ({"api_key": "a", "client_id": "c"}, "and client_id together"),
        ({"app_id": "b", "client_id": "c", "merchant_id": "m"}, "only with an api_key"),
        ({"api_key": ""}, "api-key must be printable ASCII, and not empty"),
        ({"api_key": "schlüssel"}, "must be printable ASCII"),
        ({"api_key": "a\n"}, "must be printable ASCII"),
        ({"api_key": "a", "plaintext": True, "root_certificates": b"x"}, "no certificates"),
    ],
)
def test_credentials_that_no_server_would_take_are_refused(options, fault):
    for kind in (Client, AsyncClient):
        with pytest.raises(ValueError, match=fault):
            kind("localhost:1", **options)


@pytest.mark.parametrize(
    ("target", "local"),
    [
        ("localhost:9000", True),
        ("LOCALHOST", True),
        ("127.0.0.1:9000", True),
        ("127.8.0.1", True),
        ("[::1]:9000", True),
        ("::1", True),
        ("unix:/run/florin.sock", True),
        ("dns:///localhost:9000", True),
        ("ipv4:127.0.0.1:9000", True),
        ("ipv6:[::1]:9000", True),
        ("pay.example:443", False),
        ("localhost.example:443", False),
        ("10.0.0.5:9000", False),
        ("[2001:db8::1]:443", False),
        ("dns://1.1.1.1/pay.example:443", False),
        ("ipv4:127.0.0.1:9000,10.0.0.5:9000", False),
        ("", False),
    ],
)
def test_plaintext_stays_on_this_machine(target, local):
    assert is_local(target) == local
    if local:
        return
    with pytest.raises(ValueError, match="unencrypted"):
        Client(target, api_key="a", plaintext=True)
