"""Test that a wallet signs exactly its option's price, whatever a server requests."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from eth_account import Account
from eth_account.messages import encode_typed_data
from florin.v1.gateway_pb2 import PaymentOption
from florin_client.wallet import PaymentPlan, Step, Wallet, WalletError, evm_steps, plan_payment
from florin_client.wallet.evm_steps import ContractPayment
from florin_client.wallet.terms import parse_option
from florin_server.domain.chains.solana import spl
from florin_server.rails.evm import settler
from florin_server.rails.evm.paying.terms import APPROVE, PERMIT2
from florin_server.rails.solana.paying import message
from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey

from tests.support.options import (
    DEST,
    EVM,
    FEE_RECEIVER,
    KINDS,
    MINT,
    PRICE,
    RECEIVER,
    RELAYER,
    SETTLER,
    SOLANA,
    TOKEN,
    make_honest_option,
    make_solana_instructions,
    make_solana_step,
    make_transfer,
    to_wire_steps,
)

NOW = 1_800_000_000
OTHER = "0x" + "ee" * 20
WALLET = Wallet(evm_key=b"\x07" * 32, solana_key=bytes(Keypair.from_seed(b"\x08" * 32)))
OWN, OWNER = WALLET.evm.address.lower(), WALLET.solana.address
ACCOUNTS = {EVM: OWN, SOLANA: OWNER}


def honest(kind: str) -> dict[str, Any]:
    return copy.deepcopy(make_honest_option(kind, ACCOUNTS, NOW))


def plan(option: dict[str, Any]) -> PaymentPlan:
    """Return the plan of an option in REST's JSON."""
    request = {
        "account": option["account"],
        "amount": {"unit": option["unit"], "value": option["value"]},
    }
    actions = [{"type": "walletRpc", "data": step} for step in to_wire_steps(option["steps"])]
    return plan_payment(request, actions, now=NOW)


def changed(kind: str, *places: tuple[tuple[Any, ...], Any]) -> dict[str, Any]:
    """Return an honest option with some values of its actions replaced."""
    option = honest(kind)
    for (*path, last), value in places:
        target = option["steps"]
        for name in path:
            target = target[name]
        target[last] = value
    return option


def test_calls_are_those_of_the_settlement():
    assert (settler.PAY, APPROVE) == (evm_steps.PAY_SELECTOR, evm_steps.APPROVE_SELECTOR)
    assert PERMIT2 == evm_steps.PERMIT2


@pytest.mark.parametrize("kind", KINDS)
def test_honest_option_is_planned_as_it_is_written(kind):
    option = honest(kind)
    created_plan = plan(option)
    assert (created_plan.terms.amount, len(created_plan.steps)) == (PRICE, len(option["steps"]))
    assert all(str(PRICE) in line or "take 0 of" in line for line in created_plan.describe()) or (
        "solana" in kind
    )
    for step, requested_step in zip(created_plan.steps, option["steps"], strict=True):
        assert step.method == requested_step["method"]
        if step.method == "eth_signTypedData_v4":
            assert step.to_document() == requested_step["params"][1]
        if step.method == "eth_sendTransaction":
            to, value, data = step.call
            call = requested_step["params"][0]
            assert (to, hex(value)) == (call["to"], call.get("value", "0x0"))
            assert "0x" + data.hex() == call["data"]


def test_addresses_may_be_written_in_either_case():
    option = changed("eip3009", ((0, "params", 0), WALLET.evm.address))
    option["account"] = f"{EVM}:{WALLET.evm.address}"
    option["unit"] = f"caip19/{EVM}/erc20:0x{TOKEN[2:].upper()}"
    domain = option["steps"][0]["params"][1]["domain"]
    domain["verifyingContract"] = "0x" + TOKEN[2:].upper()
    assert plan(option).terms.token == TOKEN


def test_grpc_option_is_planned_too():
    option = honest("coin")
    message = PaymentOption(account=option["account"])
    message.amount.unit, message.amount.value = option["unit"], option["value"]
    (step,) = option["steps"]
    created_plan = plan_payment(
        message, [Step(EVM, step["method"], tuple(step["params"]))], now=NOW
    )
    (payment,) = created_plan.steps
    assert isinstance(payment, ContractPayment)
    assert (payment.contract, payment.receiver) == (SETTLER, DEST)
    assert DEST in created_plan.describe()[0]


MESSAGE = (0, "params", 1, "message")
DOMAIN = (0, "params", 1, "domain")
PERMITTED = (0, "params", 1, "message", "permitted")
CALL = (0, "params", 0)
RESET = "0x095ea7b3" + SETTLER[2:].rjust(64, "0") + "0" * 64

LIES: dict[str, tuple[str, tuple[tuple[Any, ...], Any]]] = {
    # the number that is checked must be the number that is signed
    "decimal coin value": ("coin", ((*CALL, "value"), str(PRICE))),
    "decimal amount": ("eip3009", ((*MESSAGE, "value"), str(PRICE))),
    "amount as a JSON number": ("eip3009", ((*MESSAGE, "value"), PRICE)),
    "amount with leading zeros": ("eip3009", ((*MESSAGE, "value"), f"0x0{PRICE:x}")),
    "amount in capitals": ("eip3009", ((*MESSAGE, "value"), hex(PRICE).upper())),
    "amount with underscores": ("eip3009", ((*MESSAGE, "value"), "0xbe_bc20")),
    "negative amount": ("eip3009", ((*MESSAGE, "value"), hex(-PRICE))),
    # other values
    "more": ("eip3009", ((*MESSAGE, "value"), hex(PRICE + 1))),
    "less, which is another payment": ("eip3009", ((*MESSAGE, "value"), hex(PRICE - 1))),
    "another account's money": ("eip3009", ((*MESSAGE, "from"), OTHER)),
    "another signer": ("eip3009", ((0, "params", 0), OTHER)),
    "money to the token": ("eip3009", ((*MESSAGE, "to"), TOKEN)),
    "a beginning": ("eip3009", ((*MESSAGE, "validAfter"), "0x1")),
    "no end": ("eip3009", ((*MESSAGE, "validBefore"), "0x" + "f" * 64)),
    "an end in a year": ("permit2 allowed", ((*MESSAGE, "deadline"), hex(NOW + 365 * 86_400))),
    "a short nonce": ("eip3009", ((*MESSAGE, "nonce"), "0x07")),
    "another token": ("eip3009", ((*DOMAIN, "verifyingContract"), OTHER)),
    "another chain in the domain": ("eip3009", ((*DOMAIN, "chainId"), "0x1")),
    "a salt": ("eip3009", ((*DOMAIN, "salt"), "0x" + "11" * 32)),
    "a member more": ("eip3009", ((*MESSAGE, "bonus"), "0x1")),
    "a type of its own": (
        "eip3009",
        ((0, "params", 1, "types", "ReceiveWithAuthorization", 2, "type"), "uint8"),
    ),
    "a member left out of its type": (
        "permit2 allowed",
        ((0, "params", 1, "types", "TokenPermissions"), [{"name": "token", "type": "address"}]),
    ),
    "another message": ("eip3009", ((0, "params", 1, "primaryType"), "TransferWithAuthorization")),
    "a permit without an end": ("eip3009", ((0, "params", 1, "primaryType"), "Permit")),
    "more by Permit2": ("permit2 allowed", ((*PERMITTED, "amount"), hex(2**160))),
    "another token by Permit2": ("permit2 allowed", ((*PERMITTED, "token"), OTHER)),
    "a false Permit2": ("permit2 allowed", ((*DOMAIN, "verifyingContract"), OTHER)),
    "personal_sign": ("eip3009", ((0, "method"), "personal_sign")),
    "eth_sign": ("eip3009", ((0, "method"), "eth_sign")),
    "eth_signTransaction": ("coin", ((0, "method"), "eth_signTransaction")),
    "nothing to read": ("eip3009", ((0, "params", 1), [])),
    "another chain": ("coin", ((0, "chain_id"), "eip155:1")),
    # transactions
    "more coin": ("coin", ((*CALL, "value"), hex(PRICE + 1))),
    "no coin": ("coin", ((*CALL, "value"), "0x0")),
    "coin beside a token": ("direct", ((1, "params", 0, "value"), "0x1")),
    "coin beside an approval": ("direct", ((*CALL, "value"), "0x1")),
    "a fee of the server's choice": ("coin", ((*CALL, "gasPrice"), "0xffffffffff")),
    "an authorization list": ("coin", ((*CALL, "authorizationList"), [])),
    "another account's call": ("coin", ((*CALL, "from"), OTHER)),
    "a plain transfer of coin": ("coin", ((*CALL, "data"), "0x")),
    "an unlimited approval": (
        "permit2",
        ((*CALL, "data"), "0x095ea7b3" + PERMIT2[2:].rjust(64, "0") + "f" * 64),
    ),
    "an approval of another token": ("permit2", ((*CALL, "to"), OTHER)),
    "an approval for another spender": (
        "permit2",
        ((*CALL, "data"), f"0x095ea7b3{OTHER[2:].rjust(64, '0')}{PRICE:064x}"),
    ),
    "a transfer": (
        "direct",
        ((*CALL, "data"), f"0xa9059cbb{OTHER[2:].rjust(64, '0')}{PRICE:064x}"),
    ),
    "an approval, and a payment elsewhere": ("direct", ((1, "params", 0, "to"), OTHER)),
    "a payment by the token": ("direct", ((1, "params", 0, "to"), TOKEN)),
    # approvals by signature
    "a signed approval of more": ("permit2 signed", ((*MESSAGE, "value"), hex(PRICE + 1))),
    "a signed approval without limit": ("permit2 signed", ((*MESSAGE, "value"), "0x" + "f" * 64)),
    "a signed approval for another spender": ("permit2 signed", ((*MESSAGE, "spender"), OTHER)),
    "a signed approval of another account": ("permit2 signed", ((*MESSAGE, "owner"), OTHER)),
    "a signed approval of another token": (
        "permit2 signed",
        ((*DOMAIN, "verifyingContract"), OTHER),
    ),
    "a signed approval on another chain": ("permit2 signed", ((*DOMAIN, "chainId"), "0x1")),
    "a signed approval that outlives the payment": (
        "permit2 signed",
        ((*MESSAGE, "deadline"), hex(NOW + 1201)),
    ),
    "only a reset": ("direct", ((*CALL, "data"), RESET)),
}


@pytest.mark.parametrize(("kind", "lie"), LIES.values(), ids=LIES)
def test_lying_server_is_refused(kind, lie):
    with pytest.raises(WalletError):
        plan(changed(kind, lie))


@pytest.mark.parametrize("kind", ["direct", "coin", "permit2"])
def test_every_changed_byte_of_a_call_is_refused(kind):
    """Deadline, receivers, fee and reference can differ: no wallet can know them."""
    option = honest(kind)
    step = 1 if kind == "direct" else 0
    data = bytes.fromhex(option["steps"][step]["params"][0]["data"][2:])
    free = () if kind == "permit2" else range(4 + 5 * 32, 4 + 10 * 32)
    for at in set(range(len(data))) - {*free}:
        other = bytes([*data[:at], data[at] ^ 1, *data[at + 1 :]])
        with pytest.raises(WalletError):
            plan(changed(kind, ((step, "params", 0, "data"), "0x" + other.hex())))


def test_steps_that_pay_together_more_than_the_option_are_refused():
    two = honest("eip3009")
    two["steps"] *= 2
    five = honest("eip3009")
    five["steps"] *= 5
    approving = honest("eip3009")
    approving["steps"].insert(0, honest("permit2")["steps"][0])
    doubled = honest("permit2")
    doubled["steps"].insert(0, doubled["steps"][0])
    call_too = honest("permit2 allowed")
    call_too["steps"].append(honest("direct")["steps"][1])
    backwards = honest("permit2")
    backwards["steps"].reverse()
    unpaid = honest("permit2")
    del unpaid["steps"][-1]
    none = honest("eip3009")
    none["steps"] = []
    three = honest("solana")
    three["steps"] *= 3
    twice_signed = honest("permit2 signed")
    twice_signed["steps"].insert(0, twice_signed["steps"][0])
    both_ways = honest("permit2 signed")
    both_ways["steps"].insert(0, honest("permit2 from zero")["steps"][0])
    needless = honest("eip3009")
    needless["steps"].insert(0, honest("permit2 signed")["steps"][0])
    beside_call = honest("direct")
    beside_call["steps"][0] = honest("permit2 signed")["steps"][0]
    only_approved = honest("permit2 signed")
    del only_approved["steps"][-1]
    by_signature = (twice_signed, both_ways, needless, beside_call, only_approved)
    sent = (two, five, approving, doubled, call_too, backwards, unpaid, none, three)
    for option in (*sent, *by_signature):
        with pytest.raises(WalletError):
            plan(option)


@pytest.mark.parametrize(
    "changes",
    [
        {"value": "0"},
        {"value": "-1"},
        {"value": "0xbebc20"},
        {"value": "012500000"},
        {"value": str(2**256)},
        {"value": ""},
        {"unit": f"caip19/eip155:1/erc20:{TOKEN}"},
        {"unit": f"{EVM}/erc20:{TOKEN}"},
        {"unit": "iso4217/USD"},
        {"unit": f"caip19/{EVM}/erc721:{TOKEN}"},
        {"account": OWN},
        {"account": f"{EVM}:0x12"},
        {"account": f"eip155:08453:{OWN}"},
    ],
    ids=str,
)
def test_option_in_another_form_is_refused(changes):
    with pytest.raises(WalletError):
        plan(honest("eip3009") | changes)


def test_member_that_stands_twice_is_refused():
    option = honest("eip3009")
    text = json.dumps(option["steps"][0]["params"][1])
    twice = text.replace('"value":', f'"value": "{PRICE + 1:#x}", "value":')
    assert twice != text
    request = {"account": option["account"], "amount": option}
    with pytest.raises(WalletError, match="twice"):
        plan_payment(request, [Step(EVM, "eth_signTypedData_v4", (OWN, twice))], now=NOW)


def test_wallet_executes_only_steps_that_fit_the_option():
    option = honest("eip3009")
    request = {"account": option["account"], "amount": option}
    good = [
        {"type": "walletRpc", "data": wire_step} for wire_step in to_wire_steps(option["steps"])
    ]
    with pytest.raises(StopIteration) as end:
        next(WALLET.start_execution(good, option=request, now=NOW))
    (signature,) = end.value.value
    signed = encode_typed_data(full_message=option["steps"][0]["params"][1])
    assert Account.recover_message(signed, signature=signature).lower() == OWN
    bad = changed("eip3009", ((*MESSAGE, "value"), hex(PRICE + 1)))
    lie = [{"type": "walletRpc", "data": wire_step} for wire_step in to_wire_steps(bad["steps"])]
    with pytest.raises(WalletError, match="the amount"):
        WALLET.execute(lie, option=request)
    with pytest.raises(WalletError, match="is not the wallet's"):
        next(Wallet.create().start_execution(good, option=request, now=NOW))


def solana(*instructions: Instruction, payer: Keypair = RELAYER) -> dict[str, Any]:
    option = honest("solana")
    option["steps"] = [make_solana_step(instructions, payer)]
    return option


def lamports(*instructions: Instruction) -> dict[str, Any]:
    option = honest("solana coin")
    option["steps"] = [make_solana_step(instructions)]
    return option


def named(program: Pubkey, data: bytes) -> Instruction:
    return Instruction(program, data, [AccountMeta(spl.parse_pubkey(OWNER), True, True)])


MOVE = make_transfer(OWNER, RECEIVER, PRICE)
COIN = spl.transfer_coin(spl.parse_pubkey(OWNER), RECEIVER.pubkey(), PRICE)
MARK = spl.create_memo("reference")


def test_solana_options_of_each_form_are_planned():
    nonce = spl.advance_nonce(Pubkey.new_unique(), RELAYER.pubkey())
    for option in (solana(MOVE, MARK), solana(nonce, MOVE, MARK), lamports(COIN, MARK)):
        (step,) = plan(option).steps
        assert step.amount == PRICE
        assert step.fee_payer == str(RELAYER.pubkey())


def test_solana_plan_says_how_long_the_transaction_is_good():
    nonce = spl.advance_nonce(Pubkey.new_unique(), RELAYER.pubkey())
    for option, durable, lasts in (
        (solana(MOVE, MARK), False, "for about half a minute"),
        (solana(nonce, MOVE, MARK), True, "as long as the payment"),
    ):
        created_plan = plan(option)
        assert created_plan.steps[0].uses_durable_nonce is durable
        assert created_plan.describe()[0].endswith(f"which is good {lasts}")


def test_solana_transaction_has_1232_bytes_at_most(monkeypatch):
    assert plan(solana(MOVE, spl.create_memo("m" * 800))).steps[0].amount == PRICE
    # Florin makes no longer transaction, but a lying server can
    monkeypatch.setattr(message, "PACKET_BYTES", 5_000)
    with pytest.raises(WalletError, match="has no canonical form"):
        plan(solana(MOVE, spl.create_memo("m" * 1000)))


SOLANA_LIES = {
    "more": solana(make_transfer(OWNER, RECEIVER, PRICE + 1)),
    "less": solana(make_transfer(OWNER, RECEIVER, PRICE - 1)),
    "twice": solana(MOVE, MOVE),
    "three shares": solana(
        make_transfer(OWNER, RECEIVER, PRICE - 2),
        make_transfer(OWNER, FEE_RECEIVER, 1),
        make_transfer(OWNER, FEE_RECEIVER, 1),
    ),
    "another token": solana(MOVE, make_transfer(OWNER, RECEIVER, 1, str(Pubkey.new_unique()))),
    "coin beside a token": solana(
        MOVE, spl.transfer_coin(spl.parse_pubkey(OWNER), RECEIVER.pubkey(), 1)
    ),
    "a new owner of the account": solana(MOVE, named(spl.TOKEN, b"\x06\x02\x00")),
    "a delegate": solana(MOVE, named(spl.TOKEN, b"\x04" + b"\xff" * 8)),
    "closing the account": solana(MOVE, named(spl.TOKEN, b"\x09")),
    "assigning the wallet": lamports(COIN, named(spl.SYSTEM, b"\x01" + b"\0" * 35)),
    "an unknown program": solana(MOVE, named(Pubkey.new_unique(), b"")),
    "an unknown program without the payer": solana(MOVE, Instruction(Pubkey.new_unique(), b"", [])),
    "the payer pays the fee": {
        **honest("solana"),
        "steps": [make_solana_step([MOVE], Keypair.from_seed(b"\x08" * 32))],
    },
    "the payer opens an account": solana(
        spl.create_associated_account(
            spl.parse_pubkey(OWNER), RECEIVER.pubkey(), spl.parse_pubkey(MINT), spl.TOKEN
        ),
        MOVE,
    ),
    "a third signer": solana(
        MOVE,
        Instruction(
            spl.MEMO, b"x", [AccountMeta(FEE_RECEIVER.pubkey(), is_signer=True, is_writable=False)]
        ),
    ),
    "a memo that the payer signs": solana(MOVE, named(spl.MEMO, b"I owe you")),
    "a nonce that is not the first": solana(
        MOVE, spl.advance_nonce(Pubkey.new_unique(), RELAYER.pubkey())
    ),
    "a nonce of the payer's": solana(
        spl.advance_nonce(Pubkey.new_unique(), spl.parse_pubkey(OWNER)), MOVE
    ),
    "a huge compute price": solana(set_compute_unit_price(2**63), MOVE),
    "two compute prices": solana(
        set_compute_unit_price(1), set_compute_unit_price(1), set_compute_unit_limit(0), MOVE
    ),
    "nothing at all": solana(MARK, named(spl.MEMO, b"")),
}


@pytest.mark.parametrize("option", SOLANA_LIES.values(), ids=SOLANA_LIES)
def test_lying_server_is_refused_on_solana(option):
    with pytest.raises(WalletError):
        plan(option)


def test_transaction_in_another_form_is_refused():
    option = honest("solana")
    (params,) = option["steps"][0]["params"]
    for text in (params["transaction"] + "AA==", "", "!", params["transaction"][:-8]):
        with pytest.raises(WalletError):
            plan(changed("solana", ((0, "params", 0, "transaction"), text)))
    with pytest.raises(WalletError):
        plan(changed("solana", ((0, "params", 0, "more"), 1)))


def test_solana_plan_shows_receivers():
    created_plan = plan(honest("solana"))
    (line,) = created_plan.describe()
    for owner in (RECEIVER, FEE_RECEIVER):
        place = spl.derive_associated_address(owner.pubkey(), spl.parse_pubkey(MINT), spl.TOKEN)
        assert str(place) in line
    assert len(make_solana_instructions(OWNER)) == 6
    assert parse_option({"account": f"{SOLANA}:{OWNER}", "amount": honest("solana")}).token == MINT
