"""Test that `florin payouts create` sends exactly what it showed."""

from __future__ import annotations

from typing import Any

import pytest
from florin.v1 import payout_pb2
from florin_server.cli.payments import payouts

USDC = payout_pb2.PayoutPreview(
    merchant_id="mrch_1",
    merchant_name="Tea House",
    live=True,
    asset="eip155:1/erc20:0x1",
    symbol="USDC",
    decimals=6,
    amount="5250000",
    owed="7000000",
    account="eip155:1:0x2",
    fee_payer="eip155:1:0x3",
)


@pytest.fixture
def requests(monkeypatch):
    sent: list[tuple[str, Any]] = []

    def ask(_: dict[str, Any], method: str, request: Any) -> Any:
        copied = type(request)()
        copied.CopyFrom(request)
        sent.append((method, copied))
        if method == "PreviewPayout":
            shown = payout_pb2.PayoutPreview()
            shown.CopyFrom(USDC)
            shown.amount = request.amount or USDC.amount
            return shown
        return payout_pb2.Payout(payout_id="pout_1", amount=request.amount, account=request.account)

    monkeypatch.setattr(payouts, "call_operator", ask)
    return sent


def test_payout_shows_its_terms_and_sends_exactly_the_shown_terms(requests, capsys):
    payouts.create_payout({}, "mrch_1", USDC.asset, "", yes=True)
    shown = capsys.readouterr().err
    for line in (
        "Merchant     Tea House (mrch_1)\n",
        "Sends        5.25 USDC (eip155:1/erc20:0x1)\n",
        "Owed         7.00 USDC\n",
        "Receiver     eip155:1:0x2\n",
        "Network fee  on top, paid by eip155:1:0x3\n",
    ):
        assert line in shown
    assert [method for method, _ in requests] == ["PreviewPayout", "CreatePayout"]
    _, sent = requests[-1]
    assert (sent.amount, sent.account) == ("5250000", USDC.account)


@pytest.mark.parametrize(
    ("amount", "minor"), [("1", "1"), ("1.5 USDC", "1500000"), ("0.000001 USDC", "1")]
)
def test_payout_amount_is_in_minor_units_or_with_the_symbol(requests, amount, minor):
    payouts.create_payout({}, "mrch_1", USDC.asset, amount, yes=True)
    assert requests[-1][1].amount == minor


@pytest.mark.parametrize(
    "amount", ["0", "-1", "1.5", "0.0 USDC", "1.0000001 USDC", "1 EURC", "-1 USDC", "x USDC"]
)
def test_payout_of_no_amount_is_not_sent(requests, amount):
    with pytest.raises(SystemExit) as ended:
        payouts.create_payout({}, "mrch_1", USDC.asset, amount, yes=True)
    assert ended.value.code == 2
    assert "CreatePayout" not in [method for method, _ in requests]


def test_unconfirmed_payout_is_not_sent(requests, monkeypatch, capsys):
    monkeypatch.setattr(payouts, "confirm", lambda question, yes: yes)
    with pytest.raises(SystemExit) as ended:
        payouts.create_payout({}, "mrch_1", USDC.asset, "", yes=False)
    assert ended.value.code == 1
    assert "No payout was created." in capsys.readouterr().err
    assert [method for method, _ in requests] == ["PreviewPayout"]
