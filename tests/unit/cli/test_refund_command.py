"""Test how the command line and the Python client parse a refund's amount."""

from __future__ import annotations

import pytest
from florin.v1 import merchant_pb2
from florin_client.calls import merchant
from florin_server.cli.exits import ExitStatus
from florin_server.cli.payments import create
from florin_server.cli.payments.refund import _parse_amount
from florin_server.cli.server import ConnectionOptions

ETHER = "caip19/eip155:1/slip44:60"


def paid_in_ether() -> merchant_pb2.PaymentDetail:
    payment = merchant_pb2.PaymentDetail()
    paid = payment.info.option_amount
    paid.unit, paid.value = ETHER, "7221384158848501"
    paid.display.asset_symbol, paid.display.decimals = "ETH", 18
    return payment


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("5 USD", ("iso4217/USD", 500)),
        ("5.25 usd", ("iso4217/USD", 525)),
        ("USD 5.2", ("iso4217/USD", 520)),
        ("0.001 ETH", (ETHER, 10**15)),
        ("0.000000000000000001 ETH", (ETHER, 1)),
        (f"17 {ETHER}", (ETHER, 17)),
    ],
)
def test_amount_of_a_refund_is_parsed(text, amount):
    assert _parse_amount(text, paid_in_ether()) == amount


@pytest.mark.parametrize(
    "text",
    ["", "5", "USD", "5 XXQ", "5.255 USD", "-5 USD", "5,25 USD", "1e3 USD", ".5 ETH", "5. ETH",
     "0.0000000000000000001 ETH", "-1 ETH", f"0.5 {ETHER}", "5 USD now"],
)  # fmt: skip
def test_malformed_amount_of_a_refund_ends_the_command(text, capsys):
    with pytest.raises(SystemExit) as ended:
        _parse_amount(text, paid_in_ether())
    assert ended.value.code
    assert "--amount: " in capsys.readouterr().err


@pytest.mark.parametrize("words", [["abc"], ["abc", "USD"], ["12,50", "USD"], ["12.50"], []])
def test_malformed_amount_of_a_payment_names_argument_and_form(words, capsys):
    with pytest.raises(SystemExit) as ended:
        create.create_payment(
            ConnectionOptions(), create.CreatePaymentOptions(words), wait=False, qr=None
        )
    assert ended.value.code == ExitStatus.USAGE_ERROR
    output = " ".join(capsys.readouterr().err.split())
    assert "AMOUNT: '" in output
    assert "is not an amount; write 12.50 USD" in output


def test_client_sends_amount_and_reason_of_a_refund():
    request = merchant.create_refund("pay_1", amount=("iso4217/USD", 500), reason="broken").request
    assert (request.amount.unit, request.amount.value) == ("iso4217/USD", "500")
    assert (request.payment_id, request.reason) == ("pay_1", "broken")
    assert not merchant.create_refund("pay_1").request.HasField("amount")


@pytest.mark.parametrize("value", [5.0, True, None])
def test_client_refuses_an_inexact_amount_of_a_refund(value):
    with pytest.raises(ValueError, match="minor units are a whole number"):
        merchant.create_refund("pay_1", amount=("iso4217/USD", value))
