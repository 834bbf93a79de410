"""Test the messages of x402: what is parsed, and what is refused."""

from __future__ import annotations

import base64
import json

import pytest
from florin_server.domain.x402.messages import (
    HEADER_CHARS_MAX,
    InvalidReason,
    InvalidX402Payment,
    SettlementAnswer,
    X402Requirements,
    build_required,
    encode_header,
    parse_amount,
    parse_payment_header,
    parse_request,
    parse_requirements,
)

REQUIRED = {
    "scheme": "exact",
    "network": "eip155:8453",
    "asset": "0xA",
    "amount": "10000",
    "payTo": "0xB",
    "maxTimeoutSeconds": 60,
    "extra": {"name": "USD Coin"},
}
PAYMENT = {"x402Version": 2, "accepted": REQUIRED, "payload": {"signature": "0x"}}


def encode(value) -> str:
    return base64.b64encode(json.dumps(value).encode()).decode()


def test_requirements_keep_their_members():
    requirements = parse_requirements(REQUIRED, "accepted")
    assert requirements == X402Requirements(
        "eip155:8453", "0xA", 10_000, "0xB", 60, "exact", {"name": "USD Coin"}
    )
    assert requirements.to_json() == REQUIRED


def test_header_with_a_payment_is_parsed():
    payment = parse_payment_header(encode(PAYMENT))
    assert payment.accepted == parse_requirements(REQUIRED, "accepted")
    assert payment.payload == {"signature": "0x"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("amount", value) for value in (1, "", "-1", "01", "1.0", " 1", "١", str(2**256))),
        *(("maxTimeoutSeconds", value) for value in (0, -1, "60", 1.5, True, None, 2**40)),
        *(("network", value) for value in ("", None, 7, "a" * 257)),
        *(("asset", value) for value in ("", None, {}, "a" * 257)),
        *(("payTo", value) for value in ("", None, [])),
        *(("scheme", value) for value in ("", None)),
        *(("extra", value) for value in ([], "x", {"a": "b" * 5000})),
    ],
)
def test_requirements_of_other_types_are_refused(name, value):
    with pytest.raises(InvalidX402Payment) as refused:
        parse_requirements({**REQUIRED, name: value}, "accepted")
    assert refused.value.reason in {InvalidReason.REQUIREMENTS, InvalidReason.PAYLOAD}


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ("!", InvalidReason.PAYLOAD),
        ("a" * (HEADER_CHARS_MAX + 1), InvalidReason.PAYLOAD),
        (encode([]), InvalidReason.PAYLOAD),
        (encode({**PAYMENT, "x402Version": 1}), InvalidReason.VERSION),
        (encode({**PAYMENT, "x402Version": True}), InvalidReason.VERSION),
        (encode({**PAYMENT, "payload": "x"}), InvalidReason.PAYLOAD),
        (encode({**PAYMENT, "accepted": None}), InvalidReason.REQUIREMENTS),
        (base64.b64encode(b"[" * 5000).decode(), InvalidReason.PAYLOAD),
    ],
)
def test_header_that_is_no_payment_is_refused(header, reason):
    with pytest.raises(InvalidX402Payment) as refused:
        parse_payment_header(header)
    assert refused.value.reason is reason


def test_request_of_a_server_needs_all_its_members():
    request = {"x402Version": 2, "paymentPayload": PAYMENT, "paymentRequirements": REQUIRED}
    payment, requirements = parse_request(json.dumps(request).encode())
    assert payment.accepted == requirements
    for name in request:
        rest = {key: value for key, value in request.items() if key != name}
        with pytest.raises(InvalidX402Payment):
            parse_request(json.dumps(rest).encode())
    with pytest.raises(InvalidX402Payment):
        parse_request(b" " * 40_000)


def test_largest_amount_is_parsed():
    assert parse_amount(str(2**256 - 1), "amount") == 2**256 - 1


def test_answers_have_the_names_of_the_protocol():
    done = SettlementAnswer("eip155:1", "0xp", "0xt", amount=5)
    assert done.to_json() == {
        "success": True,
        "payer": "0xp",
        "transaction": "0xt",
        "network": "eip155:1",
        "amount": "5",
    }
    pending = SettlementAnswer("eip155:1", "0xp", reason=InvalidReason.PENDING, message="wait")
    assert pending.to_json() == {
        "success": False,
        "payer": "0xp",
        "transaction": "",
        "network": "eip155:1",
        "errorReason": "settlement_pending",
        "errorMessage": "wait",
    }


def test_header_that_requires_a_payment_is_base64_of_json():
    required = build_required("https://pay.example/x402/1", "Payment", [], "no signature")
    assert json.loads(base64.b64decode(encode_header(required))) == required
