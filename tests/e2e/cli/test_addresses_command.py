"""`florin addresses` opens addresses to which any wallet can send, and lists what arrived."""

from __future__ import annotations

import signal

import pytest
from florin_sandbox.devnet.genesis import DEVNET
from florin_server.cli.exits import ExitStatus

from tests.support.command_environment import CommandEnvironment

pytestmark = pytest.mark.long

EVM = f"eip155:{DEVNET.chain_id}"
DOLLAR, EURO = (f"{EVM}/erc20:{token.address}" for token in DEVNET.tokens)
BUYER = f"{EVM}:0x" + "77" * 20


@pytest.fixture(scope="module")
def stage(tmp_path_factory, forks):
    folder = tmp_path_factory.mktemp("addresses")
    settings = {"FLORIN_EMBEDDED__BLOCK_INTERVAL_S": "0", "FLORIN_EMBEDDED__CONFIRMATIONS": "1"}
    with forks.start_lasting("up", home=folder / "home", **settings) as up:
        yield CommandEnvironment(up, forks, folder)
        up.send_signal(signal.SIGTERM)
        assert up.wait_ended().status == 0


def test_opened_address_is_shown_and_stays_the_same(stage):
    payment = stage.payment()
    words = ("addresses", "open", payment, "--refund-account", BUYER)
    (opened,) = stage.run_json(*words)
    (address,) = opened["addresses"]
    assert (address["asset"], address["missing"]) == (DOLLAR, "12500000")
    lines = stage.run("addresses", "open", payment, "--asset", DOLLAR).out.splitlines()
    facts = dict(line.split(maxsplit=1) for line in lines)
    assert facts["Address"] == address["address"]
    assert facts["Send"] == "12.50 tUSD on Florin Devnet"
    assert (facts["Received"], facts["Missing"]) == ("0.00 tUSD", "12.50 tUSD")
    assert facts["Link"] == address["uri"]


def test_deposits_are_listed_with_sender_and_state(stage):
    payment = stage.payment()
    empty = stage.run("addresses", "list", payment)
    assert (empty.status, empty.out) == (0, "")
    assert "has no address yet" in empty.err
    assert stage.run_json("pay", payment, "--send")[-1]["status"]["status"] == "succeeded"
    (listed,) = stage.run_json("addresses", "list", payment)
    (address,), (deposit,) = listed["addresses"], listed["deposits"]
    assert (deposit["amount"], deposit["isFinal"]) == ("12500000", True)
    assert deposit["address"].lower() == f"{EVM}:{address['address']}".lower()
    assert (address["received"], address["missing"]) == ("12500000", "0")
    _, shown, _, _, row = stage.run("addresses", "list", payment).out.splitlines()
    assert shown.split()[:4] == ["12.50", "tUSD", "12.50", "tUSD"]
    assert row.split() == ["12.50", "tUSD", "final", deposit["sender"], deposit["txId"]]


def test_asset_without_an_address_is_refused(stage):
    payment = stage.payment()
    words = ("addresses", "open", payment, "--asset", EURO)
    (refused,) = stage.run_json(*words, status=ExitStatus.REFUSED)
    assert refused["error"]["details"]["reason"] == "asset_unavailable"
    assert DOLLAR in refused["error"]["message"]
    (refused,) = stage.run_json("addresses", "open", "pay_1", status=ExitStatus.NOT_FOUND)
    assert refused["error"]["code"] == "payment_not_found"
    stage.run_json("payments", "cancel", payment, "--yes")
    (refused,) = stage.run_json("addresses", "open", payment, status=ExitStatus.WRONG_STATE)
    assert refused["error"]["code"]
