"""Accounts that pay before they exist: created by the way, and only by factories that are known."""

from __future__ import annotations

import json
from typing import Any

import pytest
from eth_account import Account
from florin_server.chains.evm.typed_data import PERMIT2
from florin_server.devnet.evm import DEVNET
from florin_server.domain.errors import Code, FlorinError
from florin_server.rails.connection.jsonrpc import RpcError
from florin_server.rails.evm.paying import erc6492
from florin_server.rails.evm.rail import EvmRail
from florin_server.rails.types import Payable, Split

from tests.support.evm_lab import (
    ACCEPTS_ALL,
    ACCEPTS_NONE,
    EURO,
    MERCHANT,
    PRICE,
    RELAYER,
    Lab,
    accept,
    account_of,
    asset,
    buyer,
    euro,
    new_payment,
    open_lab,
    settings,
    signed,
)
from tests.support.smart import MAGIC, UNIVERSAL, Smart, approval, made_by, place, smart, wrapped

OWNER = buyer(7)
BURNS_GAS = "5b600056"
REVERTS = "60006000fd"
BOMB = "63001000005ffd"  # reverts with a megabyte
HASH = json.dumps("0x" + "11" * 32)


@pytest.fixture
async def lab():
    lab = await open_lab()
    universal = await lab.deploy(UNIVERSAL)
    await serve(lab, factories=(DEVNET.wallet_factory, universal))
    lab.universal = universal
    yield lab
    await lab.rail.close()
    await lab.chain.close()


async def serve(lab: Lab, **changes: Any) -> None:
    """Lets a rail with other settings take over."""
    chosen = {"opener": DEVNET.opener, "assets": (asset(), euro())} | changes
    lab.rail = EvmRail(settings(**chosen), RELAYER, lab.node)
    await lab.rail.start()


def typed_data(option: Any) -> Any:
    _signer, document = json.loads(option.actions[-1].params_json)
    return json.loads(document)


def output(account: Smart, option: Any) -> str:
    return json.dumps(account.wrap(typed_data(option)))


async def refusal(lab: Lab, option: Any, *outputs: str) -> tuple[str, str]:
    with pytest.raises(FlorinError) as caught:
        await lab.rail.verifier.verify(option, (), outputs)
    assert caught.value.code is Code.INVALID_PARAMS
    return caught.value.details["reason"], str(caught.value)


async def exists(lab: Lab, address: str) -> bool:
    return await lab.control.call("eth_getCode", address, "latest") != "0x"


async def call(lab: Lab, account: Smart) -> None:
    """Creates an account as anybody may."""
    await lab.send(to=account.factory, data=account.data)


async def item(lab: Lab, account: Smart, number: int = 1) -> Any:
    """A payment by an account, as it was confirmed."""
    await lab.fund(account.address)
    payment = new_payment(number)
    option = lab.offer(account.address, payment)
    return accept(payment, option, output(account, option))


async def paid(lab: Lab, *items: Any) -> list[bool]:
    """Whose settlement event the chain has."""
    references = [lab.rail.terms.reference(one.option) for one in items]
    events = await lab.rail.direct.paid(references, 0)
    return [any(lab.rail.terms.proves(one.option, event) for event in events) for one in items]


async def test_an_account_is_created_and_pays_in_one_transaction(lab):
    account = smart(OWNER)
    one = await item(lab, account)
    # what gas costs is known from the confirms before
    await lab.sold(99)
    before = lab.rail.rpc.requests
    await lab.rail.verifier.verify(one.option, (), one.confirmation.outputs)
    assert lab.rail.rpc.requests - before == 1
    assert await lab.rail.relay.simulate([one]) == [True]
    assert not await exists(lab, account.address)
    held = await lab.balance(account.address)

    transaction = await lab.settle(one)
    (event,) = await lab.rail.direct.paid([lab.rail.terms.reference(one.option)], 0)
    assert (event.tx_hash, event.payer) == (transaction.hash, account.address)
    assert await paid(lab, one) == [True]
    assert await exists(lab, account.address)
    assert await lab.balance(MERCHANT) == PRICE
    assert await lab.balance(account.address) == held - PRICE


async def test_once_it_exists_it_pays_with_either_form_of_signature(lab):
    account = smart(OWNER)
    first = await item(lab, account, 1)
    await lab.settle(first)
    bare_option = lab.offer(account.address, new_payment(2))
    bare = accept(new_payment(2), bare_option, json.dumps(account.sign(typed_data(bare_option))))
    again = await item(lab, account, 3)
    for one in (bare, again):
        await lab.rail.verifier.verify(one.option, (), one.confirmation.outputs)
    await lab.settle(bare, again)
    assert await paid(lab, first, bare, again) == [True] * 3


async def test_somebody_may_create_it_between_confirm_and_settlement(lab):
    account = smart(OWNER)
    one = await item(lab, account)
    await lab.rail.verifier.verify(one.option, (), one.confirmation.outputs)
    await call(lab, account)
    assert await lab.rail.relay.simulate([one]) == [True]
    await lab.settle(one)
    assert await paid(lab, one) == [True]


@pytest.mark.parametrize("opener", [DEVNET.opener, None])
async def test_an_unknown_factory_is_never_called(lab, opener):
    await serve(lab, opener=opener)
    account = smart(OWNER)
    one = await item(lab, account)
    reason, message = await refusal(lab, one.option, *one.confirmation.outputs)
    # the signature is right, and nobody has to look for what is wrong with it
    assert reason == "unreadable_output"
    assert ("its factory" if opener else "on this chain") in message
    assert "create the account first" in message
    # what exists needs no factory
    await call(lab, account)
    await lab.rail.verifier.verify(one.option, (), one.confirmation.outputs)
    await lab.settle(one)
    assert await paid(lab, one) == [True]


# fills as many empty slots as its call says: each takes 22,100 gas, as one more owner of a Safe
FILLS_SLOTS = "5f355b801560135760018155600190036002565b00"


@pytest.mark.parametrize(("owners", "is_taken"), [(5, True), (15, False), (20, False)])
async def test_account_of_too_many_owners_is_refused_for_its_gas(lab, owners, is_taken):
    """As 2 of 15, or 2 of 20: what it signed is right, and creating it takes too much."""
    fills = await lab.deploy(FILLS_SLOTS)
    account = smart(OWNER, calls=[(fills, owners.to_bytes(32, "big"))])
    one = await item(lab, account)
    if not is_taken:
        reason, message = await refusal(lab, one.option, *one.confirmation.outputs)
        assert reason == "gas_limit"
        assert "create the account first" in message
        # the signature of somebody else is still wrong, whatever it takes
        other = json.dumps(account.owned_by(buyer(8)).wrap(typed_data(one.option)))
        assert (await refusal(lab, one.option, other))[0] == "signature_mismatch"
        # what the message says to do works
        await lab.send(to=account.factory, data=account.data, gas=2_000_000)
    await lab.rail.verifier.verify(one.option, (), one.confirmation.outputs)
    await lab.settle(one)
    assert await paid(lab, one) == [True]


async def test_the_inner_signature_must_be_the_owners(lab):
    account = smart(OWNER)
    one = await item(lab, account)
    for wrong in (
        account.owned_by(buyer(8)).wrap(typed_data(one.option)),
        account.wrap(typed_data(lab.offer(account.address, new_payment(2)))),
        wrapped(account.factory, account.data, b""),
        wrapped(account.factory, account.data, b"\x5a" * 65),
    ):
        reason, message = await refusal(lab, one.option, json.dumps(wrong))
        assert (reason, "does not accept" in message) == ("signature_mismatch", True)


async def test_the_factory_must_create_the_payer(lab):
    account = smart(OWNER)
    one = await item(lab, account)
    inner = bytes.fromhex(account.sign(typed_data(one.option))[2:])
    for other in (smart(OWNER, salt=1).data, smart(buyer(8)).data, b"", b"\xff" * 3_000):
        wrong = json.dumps(wrapped(account.factory, other, inner))
        reason, message = await refusal(lab, one.option, wrong)
        assert (reason, "does not create" in message) == ("signature_mismatch", True)


async def test_a_key_does_not_pay_by_way_of_a_factory(lab):
    await lab.fund(OWNER)
    option = lab.offer(OWNER)
    inner = bytes.fromhex(json.loads(signed(OWNER, option))[2:])
    account = smart(OWNER)
    wrong = json.dumps(wrapped(account.factory, account.data, inner))
    reason, message = await refusal(lab, option, wrong)
    assert (reason, "does not create" in message) == ("signature_mismatch", True)


@pytest.mark.parametrize("runtime", [REVERTS, BURNS_GAS, BOMB, ""], ids=str)
async def test_a_factory_that_fails_creates_nothing(lab, runtime):
    factory = await lab.deploy(runtime) if runtime else "0x" + "77" * 20
    await serve(lab, factories=(factory,))
    account = smart(OWNER)
    one = await item(lab, account)
    inner = bytes.fromhex(account.sign(typed_data(one.option))[2:])
    wrong = json.dumps(wrapped(factory, account.data, inner))
    reason, _ = await refusal(lab, one.option, wrong)
    assert reason == "signature_mismatch"


@pytest.mark.parametrize("runtime", [ACCEPTS_NONE, REVERTS, BURNS_GAS, BOMB], ids=str)
async def test_an_account_that_is_created_hostile_is_refused(lab, runtime):
    one = await item(lab, made_by(lab.universal, OWNER, runtime))
    reason, _ = await refusal(lab, one.option, *one.confirmation.outputs)
    assert reason == "signature_mismatch"


async def test_an_account_that_is_poor_is_told_so(lab):
    account = smart(OWNER)
    option = lab.offer(account.address)
    reason, _ = await refusal(lab, option, output(account, option))
    assert reason == "insufficient_funds"


async def test_an_allowance_may_be_given_at_the_beginning(lab):
    account = smart(OWNER, calls=[approval(DEVNET.euro.address, PERMIT2, PRICE)])
    payer = account_of(account.address)
    (means,) = await lab.payable([payer], {EURO: PRICE})
    # nobody can tell before what the account will do
    assert means == Payable(payer, EURO, (PRICE,))
    payment, split = new_payment(), Split(account_of(MERCHANT), None, 0, settled=True)
    option = lab.rail.offers.offer(payment, payer, means, lab.rail.assets[EURO], PRICE, split, 0)
    one = accept(payment, option, HASH, output(account, option))
    await lab.rail.verifier.verify(option, (), one.confirmation.outputs)
    assert await lab.rail.relay.simulate([one]) == [True]
    await lab.settle(one)
    assert await paid(lab, one) == [True]
    assert await lab.balance(MERCHANT, DEVNET.euro.address) == PRICE


# forms


async def test_wrappers_that_cannot_be_read_are_told_so_without_a_question(lab):
    account = smart(OWNER)
    one = await item(lab, account)
    good = bytes.fromhex(json.loads(one.confirmation.outputs[0])[2:])
    huge = (2**255).to_bytes(32, "big")
    body, magic = good[:-32], good[-32:]
    broken = [
        magic * 2,
        *(body[:size] + magic for size in range(32, len(body), 31)),
        *(body[: 32 * n] + huge + body[32 * n + 32 :] + magic for n in range(4)),
        b"\x01" + body[1:] + magic,
        body + bytes(32) + magic,
        body + b"\x01" + magic,
        bytes.fromhex(wrapped(account.factory, bytes(3_073), b"\x01" * 65)[2:]),
    ]
    before = lab.rail.rpc.requests
    for wrong in broken:
        reason, _ = await refusal(lab, one.option, json.dumps("0x" + wrong.hex()))
        assert reason == "unreadable_output", wrong.hex()
    assert lab.rail.rpc.requests == before


def test_the_form_is_that_of_every_encoder():
    for data, inner in ((b"", b""), (b"\x01", b"\x02" * 65), (b"\x03" * 64, b"\x04" * 96)):
        text = wrapped("0x" + "ab" * 20, data, inner)
        found = erc6492.unwrap(bytes.fromhex(text[2:]))
        assert found == erc6492.Wrapped("0x" + "ab" * 20, data, inner)
        assert found.encoded().hex() == text[2:]
    assert erc6492.unwrap(b"\x01" * 65) is None
    assert erc6492.MAGIC.hex() == MAGIC


# hostile company


async def test_neither_a_factory_nor_an_account_can_burn_a_batch(lab):
    """Each of them was fine when it was verified; they took their chance afterwards."""
    burner = await lab.deploy(BURNS_GAS)
    await serve(lab, factories=(DEVNET.wallet_factory, lab.universal, burner))
    good = [await lab.sold(1), await item(lab, smart(OWNER), 2), await lab.sold(3)]
    bad = [
        await item(lab, made_by(lab.universal, OWNER, runtime, salt), 10 + salt)
        for salt, runtime in enumerate((BURNS_GAS, BOMB, ACCEPTS_NONE))
    ]
    for number in range(20, 31):
        account = smart(OWNER, salt=number)
        await lab.fund(account.address)
        payment = new_payment(number)
        option = lab.offer(account.address, payment)
        inner = bytes.fromhex(account.sign(typed_data(option))[2:])
        text = wrapped(burner, b"\xff" * 2_900, inner)
        bad.append(accept(payment, option, json.dumps(text)))
    items = [bad[0], good[0], *bad[1:5], good[1], *bad[5:], good[2]]
    expected = [one in good for one in items]
    assert lab.rail.gas.batches(items) == [items]
    assert await lab.rail.relay.simulate(items) == expected
    transaction = await lab.settle(*items)
    receipt = await lab.control.call("eth_getTransactionReceipt", transaction.hash)
    assert receipt["status"] == "0x1"
    assert await paid(lab, *items) == expected
    assert await lab.balance(MERCHANT) == 3 * PRICE


async def test_a_transaction_is_never_fuller_than_its_gas_allows(lab):
    items = [await item(lab, smart(OWNER, salt=number), number) for number in range(18)]
    plain = [await lab.sold(100 + number) for number in range(8)]
    mixed = [*items[:9], *plain, *items[9:]]
    parts = lab.rail.gas.batches(mixed)
    assert [one for part in parts for one in part] == mixed
    assert [len(part) for part in parts] == [23, 3]
    for part in parts:
        assert await lab.rail.relay.simulate(part) == [True] * len(part)


async def test_an_ordinary_batch_is_one_transaction_to_the_settlement_contract(lab):
    items = [await lab.sold(number) for number in range(3)]
    assert lab.rail.gas.batches(items) == [items]
    assert lab.rail.gas.batches([]) == []
    transaction = await lab.settle(*items)
    sent = await lab.control.call("eth_getTransactionByHash", transaction.hash)
    assert sent["to"].lower() == DEVNET.settler


# the opener by itself


async def test_another_contract_in_its_place_is_told_of(lab):
    assert await lab.rail.problems() == ()
    for other in (DEVNET.settler, "0x" + "77" * 20):
        await serve(lab, opener=other)
        (problem,) = await lab.rail.problems()
        assert problem == f"{DEVNET.name}: the contract at {other} is not Florin's opener"
        one = await item(lab, smart(OWNER, salt=int(other[-1], 16)))
        reason, _ = await refusal(lab, one.option, *one.confirmation.outputs)
        assert reason == "unreadable_output"


async def test_the_opener_says_what_its_target_says(lab):
    settlement = bytes.fromhex("12345678")
    for target, answer in (
        (await lab.deploy(ACCEPTS_ALL), "0x1626ba7e" + "00" * 28),
        ("0x" + "77" * 20, "0x"),
    ):
        data = erc6492.open_and_call([], target, settlement)
        question = {"to": DEVNET.opener, "data": "0x" + data.hex()}
        assert await lab.control.call("eth_call", question, "latest") == answer
    says_no = await lab.deploy("63deadbeef5f526004601cfd")
    data = erc6492.open_and_call([], says_no, settlement)
    with pytest.raises(RpcError) as caught:
        await lab.control.call(
            "eth_call", {"to": DEVNET.opener, "data": "0x" + data.hex()}, "latest"
        )
    assert (caught.value.is_revert, caught.value.data) == (True, "0xdeadbeef")


async def test_the_opener_starves_no_factory(lab):
    account = smart(OWNER)
    opening = erc6492.Opening(account.address, account.factory, account.data)
    data = erc6492.open_and_call([opening], "0x" + "77" * 20, b"")
    question = {"to": DEVNET.opener, "data": "0x" + data.hex()}
    with pytest.raises(RpcError) as caught:
        await lab.control.call("eth_call", question | {"gas": hex(500_000)}, "latest")
    assert caught.value.is_revert
    assert await lab.control.call("eth_call", question | {"gas": hex(560_000)}, "latest") == "0x"


def test_the_places_of_accounts_are_those_of_the_standard():
    # an example of EIP-1014
    nowhere = "0x" + "00" * 20
    assert place(nowhere, bytes(32), b"\0") == "0x4d1a2e2bb4f88f0250f26ffff098b0b30b26bf38"


async def test_the_factory_and_the_tests_agree_where_an_account_is(lab):
    account = smart(Account.from_key(b"\x07" * 32), salt=5, calls=[approval(MERCHANT, PERMIT2, 1)])
    question = erc6492.abi.selector("addressOf(address,bytes32,(address,bytes)[])")
    asked = {"to": account.factory, "data": "0x" + (question + account.data[4:]).hex()}
    answer = await lab.control.call("eth_call", asked, "latest")
    assert answer[-40:] == account.address[2:]
