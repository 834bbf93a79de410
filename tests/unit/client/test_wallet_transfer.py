"""Test that a wallet sends only to an address that follows from the payment's route."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import pytest
from eth_account import Account
from eth_account.typed_transactions import TypedTransaction
from florin.v1.address_pb2 import PayAddress
from florin_client.wallet import FORWARDER, Wallet, WalletError, plan_transfer
from florin_client.wallet.transfers import TransferRoute
from florin_server.app.chains.setup import load_forwarder_contract
from florin_server.domain.chains.evm.route import ForwardRoute
from florin_server.rails.evm.paying.terms import ZERO_ADDRESS
from google.protobuf import json_format
from hexbytes import HexBytes
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.options import (
    DEST,
    EVM,
    FEE,
    FEE_TO,
    HOME,
    PRICE,
    TOKEN,
    make_forward_route,
    make_pay_address,
)

NOW = 1_800_000_000
END = NOW + 900
OTHER = "0x" + "ee" * 20
KEY = b"\x07" * 32
WALLET = Wallet(evm_key=KEY)
ACCOUNT = WALLET.account(EVM)
ROUTE = make_forward_route(NOW)
COIN_ROUTE = dataclasses.replace(ROUTE, token=ZERO_ADDRESS)
NODE = {
    "eth_chainId": "0x2105",
    "eth_estimateGas": "0x7530",
    "eth_getTransactionCount": "0x5",
    "eth_getBlockByNumber": {"baseFeePerGas": "0x3b9aca0"},
    "eth_sendRawTransaction": "0xwhatever",
}


def honest(route: ForwardRoute = ROUTE, received: int = 0) -> dict[str, Any]:
    """Return the address of a route as REST's JSON; the payment ends with the honest route."""
    return make_pay_address(route, received) | {"expiresAt": str(END)}


def send(plan: Any, **options: Any) -> dict[str, Any]:
    """Return the transaction that a wallet sends for a plan."""
    procedure, answer = WALLET.start_plan_execution(plan, **options), None
    while True:
        question = procedure.send(answer)
        if question.method == "eth_sendRawTransaction":
            raw = question.params[0]
            assert Account.recover_transaction(raw) == WALLET.evm.address
            return TypedTransaction.from_bytes(HexBytes(raw)).as_dict()
        answer = NODE[question.method]


def test_known_forwarder_is_the_contract_that_florin_deploys():
    assert load_forwarder_contract().address.lower() == FORWARDER


ADDRESS = st.binary(min_size=20, max_size=20).map(lambda raw: "0x" + raw.hex())
UINT256 = st.integers(0, 2**256 - 1)


@settings(max_examples=50)
@given(
    st.builds(
        ForwardRoute,
        chain_id=UINT256,
        forwarder=ADDRESS,
        token=ADDRESS,
        value=UINT256,
        valid_before=UINT256,
        dest=ADDRESS,
        fee_to=ADDRESS,
        fee=UINT256,
        ref=st.binary(min_size=32, max_size=32),
        home=ADDRESS,
    )
)
def test_wallet_computes_the_same_address_as_the_server(route):
    members = {field.name: getattr(route, field.name) for field in dataclasses.fields(route)}
    assert TransferRoute(**members).compute_address() == route.compute_address()


def test_plan_transfers_exactly_the_price_in_a_token():
    plan = plan_transfer(honest(), ACCOUNT, now=NOW)
    (step,) = plan.steps
    to, value, data = step.call
    address = ROUTE.compute_address()
    assert (to, value) == (TOKEN, 0)
    assert data.hex() == f"a9059cbb{address[2:].rjust(64, '0')}{PRICE:064x}"
    assert (plan.terms.amount, plan.deadline, plan.sends_transactions) == (PRICE, END, True)
    (sentence,) = plan.describe(lambda value: f"{value} units")
    assert sentence == (
        f"sends {PRICE} units to {address}, which passes {PRICE} units on to {DEST}, of which "
        f"{FEE} units to {FEE_TO} until 2027-01-15 08:15:00 UTC; other money goes to {HOME}"
    )
    sent = send(plan)
    assert (sent["to"].hex(), sent["value"], sent["data"].hex()) == (TOKEN[2:], 0, data.hex())


def test_plan_transfers_exactly_the_price_in_coin():
    plan = plan_transfer(honest(COIN_ROUTE), ACCOUNT, now=NOW)
    sent = send(plan, max_fee=10**16)
    address = COIN_ROUTE.compute_address()
    assert (sent["to"].hex(), sent["value"], sent["data"]) == (address[2:], PRICE, b"")
    with pytest.raises(WalletError, match="raise max_fee"):
        send(plan, max_fee=1)


def test_plan_transfers_only_what_is_missing():
    plan = plan_transfer(honest(received=PRICE - 1), ACCOUNT, now=NOW)
    assert plan.terms.amount == 1
    assert plan.steps[0].call[2][-1] == 1
    for received in (PRICE, PRICE + 1):
        with pytest.raises(WalletError, match="nothing is missing"):
            plan_transfer(honest(received=received), ACCOUNT, now=NOW)


def test_address_without_a_fee_is_planned():
    route = dataclasses.replace(ROUTE, fee=0, fee_to=ZERO_ADDRESS)
    (sentence,) = plan_transfer(honest(route), ACCOUNT, now=NOW).describe()
    assert "of which" not in sentence


def test_grpc_address_is_planned_too():
    message = json_format.ParseDict(honest(), PayAddress())
    assert plan_transfer(message, ACCOUNT, now=NOW) == plan_transfer(honest(), ACCOUNT, now=NOW)
    message.route.dest = OTHER
    with pytest.raises(WalletError, match="the address is"):
        plan_transfer(message, ACCOUNT, now=NOW)
    with pytest.raises(WalletError):
        plan_transfer(PayAddress(), ACCOUNT, now=NOW)


def test_forwarder_that_the_wallet_does_not_know_is_refused():
    """Its code could pass the money on to anyone."""
    other = dataclasses.replace(ROUTE, forwarder=OTHER)
    with pytest.raises(WalletError, match="the forwarder"):
        plan_transfer(honest(other), ACCOUNT, now=NOW)
    plan = plan_transfer(honest(other), ACCOUNT, forwarder=OTHER.upper().replace("X", "x"), now=NOW)
    assert plan.steps[0].call[2][16:36].hex() == other.compute_address()[2:]
    with pytest.raises(WalletError, match="the forwarder"):
        plan_transfer(honest(), ACCOUNT, forwarder=OTHER, now=NOW)


def test_plan_of_another_account_is_not_executed():
    plan = plan_transfer(honest(), f"{EVM}:{OTHER}", now=NOW)
    with pytest.raises(WalletError, match="is not the wallet's account"):
        send(plan)


# members of the answer that differ from its route
LIES: dict[str, tuple[tuple[str, ...], Any]] = {
    "another address": (("address",), OTHER),
    "no address": (("address",), ""),
    "an address of Solana": (("address",), "11111111111111111111111111111111"),
    "the token as the address": (("address",), TOKEN),
    "another asset": (("asset",), f"{EVM}/erc20:{OTHER}"),
    "coin instead of the token": (("asset",), f"{EVM}/slip44:60"),
    "another chain": (("asset",), f"eip155:1/erc20:{TOKEN}"),
    "a collectible": (("asset",), f"{EVM}/erc721:{TOKEN}"),
    "another unit of the price": (("amount", "unit"), f"caip19/eip155:1/erc20:{TOKEN}"),
    "a lower price": (("amount", "value"), str(PRICE - 1)),
    "a higher price": (("amount", "value"), str(PRICE + 1)),
    "more missing": (("missing",), str(PRICE + 1)),
    "less missing": (("missing",), str(PRICE - 1)),
    "negative missing": (("missing",), str(-PRICE)),
    "a negative receipt": (("received",), "-1"),
    "missing in hex": (("missing",), hex(PRICE)),
    "missing as a JSON number": (("missing",), PRICE),
    "missing with a leading zero": (("missing",), f"0{PRICE}"),
    "missing in Arabic digits": (("missing",), "١٢٥٠٠٠٠٠"),
    "an endless number": (("missing",), "9" * 100_000),
    "part received, all missing": (("received",), "1"),
    "an end in the past": (("expiresAt",), str(NOW)),
    "another receiver": (("route", "dest"), OTHER),
    "another receiver of the fee": (("route", "feeTo"), OTHER),
    "another fee": (("route", "fee"), str(FEE + 1)),
    "another home": (("route", "home"), OTHER),
    "another reference": (("route", "ref"), "0x" + "08" * 32),
    "a short reference": (("route", "ref"), "0x" + "07" * 31),
    "a reference with spaces": (("route", "ref"), "0x" + " 7" * 32),
    "another value": (("route", "value"), str(PRICE + 1)),
    "another chain of the route": (("route", "chainId"), "1"),
    "another token of the route": (("route", "token"), OTHER),
    "another end": (("route", "validBefore"), str(END + 1)),
    "another forwarder": (("route", "forwarder"), OTHER),
    "a number of more than 64 bits": (("route", "validBefore"), str(2**64)),
    "a flag as a number": (("route", "chainId"), True),
    "no route": (("route",), {}),
    "a route of another type": (("route",), "0x"),
    "no price": (("amount",), None),
}


@pytest.mark.parametrize(("path", "lie"), LIES.values(), ids=LIES)
def test_lying_server_is_refused(path, lie):
    address = copy.deepcopy(honest())
    *places, last = path
    target = address
    for name in places:
        target = target[name]
    target[last] = lie
    with pytest.raises(WalletError):
        plan_transfer(address, ACCOUNT, now=NOW)
    del target[last]
    with pytest.raises(WalletError):
        plan_transfer(address, ACCOUNT, now=NOW)


# routes that have the address of the answer, and that no payment has
@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"valid_before": NOW}, "is over"),
        ({"valid_before": NOW + 32 * 86_400}, "for longer than any payment"),
        ({"fee": PRICE + 1}, "its fee is above the price"),
        ({"dest": ZERO_ADDRESS}, "goes nowhere"),
        ({"home": ZERO_ADDRESS}, "goes nowhere"),
        ({"fee_to": ZERO_ADDRESS}, "has no receiver"),
        ({"value": 0}, "nothing is missing"),
    ],
    ids=str,
)
def test_route_that_no_payment_has_is_refused(changes, why):
    with pytest.raises(WalletError, match=why):
        plan_transfer(honest(dataclasses.replace(ROUTE, **changes)), ACCOUNT, now=NOW)


def test_account_on_another_chain_is_refused():
    for account in (f"eip155:1:{OTHER}", "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp:" + "1" * 32, ""):
        with pytest.raises(WalletError):
            plan_transfer(honest(), account, now=NOW)


@pytest.mark.parametrize("answer", [None, [], "text", {}, {"amount": []}], ids=str)
def test_answer_that_is_no_address_is_refused(answer):
    with pytest.raises(WalletError, match="cannot be parsed"):
        plan_transfer(answer, ACCOUNT, now=NOW)
