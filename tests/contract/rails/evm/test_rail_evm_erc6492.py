"""Test accounts that pay before they exist: the payment creates them, by known factories only."""

from __future__ import annotations

import json
from typing import Any

import pytest
from eth_account import Account
from florin_sandbox.devnet.evm import DEVNET
from florin_server.domain.chains.evm.typed_data import PERMIT2
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.rails.connection.jsonrpc import RpcError
from florin_server.rails.evm.paying import erc6492
from florin_server.rails.evm.rail import EvmRail
from florin_server.rails.option_offer import OptionOffer
from florin_server.rails.types import PayableAsset, Split

from tests.support.contract_accounts import (
    MAGIC,
    UNIVERSAL,
    ContractAccount,
    compute_create2_address,
    make_account_by_factory,
    make_approval,
    make_contract_account,
    wrap_signature,
)
from tests.support.evm_harness import (
    ACCEPTS_ALL,
    ACCEPTS_NONE,
    EURO,
    MERCHANT,
    PRICE,
    RELAYER,
    EvmChainHarness,
    make_asset,
    make_buyer,
    make_chain_settings,
    make_euro_asset,
    make_payment,
    make_settlement_item,
    open_lab,
    sign_option,
    to_account,
)

OWNER = make_buyer(7)
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


async def serve(lab: EvmChainHarness, **changes: Any) -> None:
    """Replace the rail by a rail with other settings."""
    chosen = {"opener": DEVNET.opener, "assets": (make_asset(), make_euro_asset())} | changes
    lab.rail = EvmRail(make_chain_settings(**chosen), RELAYER, lab.node)
    await lab.rail.start()


def typed_data(option: Any) -> Any:
    _signer, document = json.loads(option.actions[-1].params_json)
    return json.loads(document)


def output(account: ContractAccount, option: Any) -> str:
    return json.dumps(account.wrap(typed_data(option)))


async def refusal(lab: EvmChainHarness, option: Any, *outputs: str) -> tuple[str, str]:
    with pytest.raises(ApiError) as caught:
        await lab.rail.verifier.verify(option, (), outputs)
    assert caught.value.code is ErrorCode.INVALID_PARAMS
    return caught.value.details["reason"], str(caught.value)


async def exists(lab: EvmChainHarness, address: str) -> bool:
    return await lab.control.call("eth_getCode", address, "latest") != "0x"


async def call(lab: EvmChainHarness, account: ContractAccount) -> None:
    """Create an account as any caller can."""
    await lab.send(to=account.factory, data=account.data)


async def item(lab: EvmChainHarness, account: ContractAccount, number: int = 1) -> Any:
    """Return a confirmed payment of an account."""
    await lab.fund(account.address)
    payment = make_payment(number)
    option = lab.offer(account.address, payment)
    return make_settlement_item(payment, option, output(account, option))


async def paid(lab: EvmChainHarness, *items: Any) -> list[bool]:
    """Return, for each item, whether the chain has its settlement event."""
    references = [lab.rail.terms.get_reference(each_item.option) for each_item in items]
    events = await lab.rail.direct_settlement.list_settlement_events(references, 0)
    return [
        any(lab.rail.terms.is_proven(each_item.option, event) for event in events)
        for each_item in items
    ]


async def test_account_is_created_and_pays_in_a_single_transaction(lab):
    account = make_contract_account(OWNER)
    this_item = await item(lab, account)
    # the earlier confirms measured the gas
    await lab.create_verified_item(99)
    before = lab.rail.rpc.request_count
    await lab.rail.verifier.verify(this_item.option, (), this_item.confirmation.outputs)
    assert lab.rail.rpc.request_count - before == 1
    assert await lab.rail.relay.simulate([this_item]) == [True]
    assert not await exists(lab, account.address)
    held = await lab.balance(account.address)

    transaction = await lab.settle(this_item)
    (event,) = await lab.rail.direct_settlement.list_settlement_events(
        [lab.rail.terms.get_reference(this_item.option)], 0
    )
    assert (event.tx_hash, event.payer) == (transaction.hash, account.address)
    assert await paid(lab, this_item) == [True]
    assert await exists(lab, account.address)
    assert await lab.balance(MERCHANT) == PRICE
    assert await lab.balance(account.address) == held - PRICE


async def test_once_it_exists_it_pays_with_either_form_of_signature(lab):
    account = make_contract_account(OWNER)
    first = await item(lab, account, 1)
    await lab.settle(first)
    bare_option = lab.offer(account.address, make_payment(2))
    bare = make_settlement_item(
        make_payment(2), bare_option, json.dumps(account.sign(typed_data(bare_option)))
    )
    again = await item(lab, account, 3)
    for each_item in (bare, again):
        await lab.rail.verifier.verify(each_item.option, (), each_item.confirmation.outputs)
    await lab.settle(bare, again)
    assert await paid(lab, first, bare, again) == [True] * 3


async def test_account_created_between_confirm_and_settlement_still_pays(lab):
    account = make_contract_account(OWNER)
    this_item = await item(lab, account)
    await lab.rail.verifier.verify(this_item.option, (), this_item.confirmation.outputs)
    await call(lab, account)
    assert await lab.rail.relay.simulate([this_item]) == [True]
    await lab.settle(this_item)
    assert await paid(lab, this_item) == [True]


@pytest.mark.parametrize("opener", [DEVNET.opener, None])
async def test_an_unknown_factory_is_never_called(lab, opener):
    await serve(lab, opener=opener)
    account = make_contract_account(OWNER)
    this_item = await item(lab, account)
    reason, message = await refusal(lab, this_item.option, *this_item.confirmation.outputs)
    # the signature is valid, so the error does not blame it
    assert reason == "unreadable_output"
    assert ("its factory" if opener else "on this chain") in message
    assert "create the account first" in message
    # an account that exists needs no factory
    await call(lab, account)
    await lab.rail.verifier.verify(this_item.option, (), this_item.confirmation.outputs)
    await lab.settle(this_item)
    assert await paid(lab, this_item) == [True]


# fills as many empty slots as its call requests: 22,100 gas each, as one more owner of a Safe
FILLS_SLOTS = "5f355b801560135760018155600190036002565b00"


@pytest.mark.parametrize(("owners", "is_taken"), [(5, True), (15, False), (20, False)])
async def test_account_of_too_many_owners_is_refused_for_its_gas(lab, owners, is_taken):
    """Like 2 of 15 or 2 of 20 owners: a valid signature, but the creation takes too much gas."""
    fills = await lab.deploy(FILLS_SLOTS)
    account = make_contract_account(OWNER, calls=[(fills, owners.to_bytes(32, "big"))])
    this_item = await item(lab, account)
    if not is_taken:
        reason, message = await refusal(lab, this_item.option, *this_item.confirmation.outputs)
        assert reason == "gas_limit"
        assert "create the account first" in message
        # another signer's signature stays a mismatch, whatever its gas
        other = json.dumps(account.with_owner(make_buyer(8)).wrap(typed_data(this_item.option)))
        assert (await refusal(lab, this_item.option, other))[0] == "signature_mismatch"
        # the advice in the message works
        await lab.send(to=account.factory, data=account.data, gas=2_000_000)
    await lab.rail.verifier.verify(this_item.option, (), this_item.confirmation.outputs)
    await lab.settle(this_item)
    assert await paid(lab, this_item) == [True]


async def test_the_inner_signature_must_be_the_owners(lab):
    account = make_contract_account(OWNER)
    this_item = await item(lab, account)
    for wrong in (
        account.with_owner(make_buyer(8)).wrap(typed_data(this_item.option)),
        account.wrap(typed_data(lab.offer(account.address, make_payment(2)))),
        wrap_signature(account.factory, account.data, b""),
        wrap_signature(account.factory, account.data, b"\x5a" * 65),
    ):
        reason, message = await refusal(lab, this_item.option, json.dumps(wrong))
        assert (reason, "does not accept" in message) == ("signature_mismatch", True)


async def test_the_factory_must_create_the_payer(lab):
    account = make_contract_account(OWNER)
    this_item = await item(lab, account)
    inner = bytes.fromhex(account.sign(typed_data(this_item.option))[2:])
    for other in (
        make_contract_account(OWNER, salt=1).data,
        make_contract_account(make_buyer(8)).data,
        b"",
        b"\xff" * 3_000,
    ):
        wrong = json.dumps(wrap_signature(account.factory, other, inner))
        reason, message = await refusal(lab, this_item.option, wrong)
        assert (reason, "does not create" in message) == ("signature_mismatch", True)


async def test_a_key_does_not_pay_by_way_of_a_factory(lab):
    await lab.fund(OWNER)
    option = lab.offer(OWNER)
    inner = bytes.fromhex(json.loads(sign_option(OWNER, option))[2:])
    account = make_contract_account(OWNER)
    wrong = json.dumps(wrap_signature(account.factory, account.data, inner))
    reason, message = await refusal(lab, option, wrong)
    assert (reason, "does not create" in message) == ("signature_mismatch", True)


@pytest.mark.parametrize("runtime", [REVERTS, BURNS_GAS, BOMB, ""], ids=str)
async def test_a_factory_that_fails_creates_nothing(lab, runtime):
    factory = await lab.deploy(runtime) if runtime else "0x" + "77" * 20
    await serve(lab, factories=(factory,))
    account = make_contract_account(OWNER)
    this_item = await item(lab, account)
    inner = bytes.fromhex(account.sign(typed_data(this_item.option))[2:])
    wrong = json.dumps(wrap_signature(factory, account.data, inner))
    reason, _ = await refusal(lab, this_item.option, wrong)
    assert reason == "signature_mismatch"


@pytest.mark.parametrize("runtime", [ACCEPTS_NONE, REVERTS, BURNS_GAS, BOMB], ids=str)
async def test_an_account_that_is_created_hostile_is_refused(lab, runtime):
    this_item = await item(lab, make_account_by_factory(lab.universal, OWNER, runtime))
    reason, _ = await refusal(lab, this_item.option, *this_item.confirmation.outputs)
    assert reason == "signature_mismatch"


async def test_undeployed_account_without_funds_gets_insufficient_funds(lab):
    account = make_contract_account(OWNER)
    option = lab.offer(account.address)
    reason, _ = await refusal(lab, option, output(account, option))
    assert reason == "insufficient_funds"


async def test_allowance_may_be_granted_at_account_creation(lab):
    account = make_contract_account(
        OWNER, calls=[make_approval(DEVNET.euro.address, PERMIT2, PRICE)]
    )
    payer = to_account(account.address)
    (means,) = await lab.payable([payer], {EURO: PRICE})
    # the account's behavior cannot be known in advance
    assert means == PayableAsset(payer, EURO, (PRICE,))
    payment, split = make_payment(), Split(to_account(MERCHANT), None, 0, settled=True)
    option = lab.rail.offers.build_option(
        OptionOffer(payment, payer, means, lab.rail.assets[EURO], PRICE, split, 0)
    )
    settlement_item = make_settlement_item(payment, option, HASH, output(account, option))
    await lab.rail.verifier.verify(option, (), settlement_item.confirmation.outputs)
    assert await lab.rail.relay.simulate([settlement_item]) == [True]
    await lab.settle(settlement_item)
    assert await paid(lab, settlement_item) == [True]
    assert await lab.balance(MERCHANT, DEVNET.euro.address) == PRICE


# forms


async def test_unreadable_wrapper_is_refused_without_a_request(lab):
    account = make_contract_account(OWNER)
    this_item = await item(lab, account)
    good = bytes.fromhex(json.loads(this_item.confirmation.outputs[0])[2:])
    huge = (2**255).to_bytes(32, "big")
    body, magic = good[:-32], good[-32:]
    broken = [
        magic * 2,
        *(body[:size] + magic for size in range(32, len(body), 31)),
        *(body[: 32 * n] + huge + body[32 * n + 32 :] + magic for n in range(4)),
        b"\x01" + body[1:] + magic,
        body + bytes(32) + magic,
        body + b"\x01" + magic,
        bytes.fromhex(wrap_signature(account.factory, bytes(3_073), b"\x01" * 65)[2:]),
    ]
    before = lab.rail.rpc.request_count
    for wrong in broken:
        reason, _ = await refusal(lab, this_item.option, json.dumps("0x" + wrong.hex()))
        assert reason == "unreadable_output", wrong.hex()
    assert lab.rail.rpc.request_count == before


def test_the_form_is_that_of_every_encoder():
    for data, inner in ((b"", b""), (b"\x01", b"\x02" * 65), (b"\x03" * 64, b"\x04" * 96)):
        text = wrap_signature("0x" + "ab" * 20, data, inner)
        wrapped_signature = erc6492.unwrap(bytes.fromhex(text[2:]))
        assert wrapped_signature == erc6492.WrappedSignature("0x" + "ab" * 20, data, inner)
        assert wrapped_signature.encode().hex() == text[2:]
    assert erc6492.unwrap(b"\x01" * 65) is None
    assert erc6492.MAGIC.hex() == MAGIC


# hostile accounts in one batch


async def test_neither_a_factory_nor_an_account_can_burn_a_batch(lab):
    """Each of them was valid when it was verified, and turned hostile afterwards."""
    burner = await lab.deploy(BURNS_GAS)
    await serve(lab, factories=(DEVNET.wallet_factory, lab.universal, burner))
    good = [
        await lab.create_verified_item(1),
        await item(lab, make_contract_account(OWNER), 2),
        await lab.create_verified_item(3),
    ]
    bad = [
        await item(lab, make_account_by_factory(lab.universal, OWNER, runtime, salt), 10 + salt)
        for salt, runtime in enumerate((BURNS_GAS, BOMB, ACCEPTS_NONE))
    ]
    for number in range(20, 31):
        account = make_contract_account(OWNER, salt=number)
        await lab.fund(account.address)
        payment = make_payment(number)
        option = lab.offer(account.address, payment)
        inner = bytes.fromhex(account.sign(typed_data(option))[2:])
        text = wrap_signature(burner, b"\xff" * 2_900, inner)
        bad.append(make_settlement_item(payment, option, json.dumps(text)))
    items = [bad[0], good[0], *bad[1:5], good[1], *bad[5:], good[2]]
    expected = [each_item in good for each_item in items]
    assert lab.rail.gas.split_into_batches(items) == [items]
    assert await lab.rail.relay.simulate(items) == expected
    transaction = await lab.settle(*items)
    receipt = await lab.control.call("eth_getTransactionReceipt", transaction.hash)
    assert receipt["status"] == "0x1"
    assert await paid(lab, *items) == expected
    assert await lab.balance(MERCHANT) == 3 * PRICE


async def test_a_transaction_is_never_fuller_than_its_gas_allows(lab):
    items = [
        await item(lab, make_contract_account(OWNER, salt=number), number) for number in range(18)
    ]
    plain = [await lab.create_verified_item(100 + number) for number in range(8)]
    mixed = [*items[:9], *plain, *items[9:]]
    parts = lab.rail.gas.split_into_batches(mixed)
    assert [each_item for part in parts for each_item in part] == mixed
    assert [len(part) for part in parts] == [23, 3]
    for part in parts:
        assert await lab.rail.relay.simulate(part) == [True] * len(part)


async def test_ordinary_batch_is_a_single_transaction_to_the_settlement_contract(lab):
    items = [await lab.create_verified_item(number) for number in range(3)]
    assert lab.rail.gas.split_into_batches(items) == [items]
    assert lab.rail.gas.split_into_batches([]) == []
    transaction = await lab.settle(*items)
    sent = await lab.control.call("eth_getTransactionByHash", transaction.hash)
    assert sent["to"].lower() == DEVNET.settler


# the opener itself


async def test_wrong_opener_contract_is_reported(lab):
    assert await lab.rail.list_problems() == ()
    for other in (DEVNET.settler, "0x" + "77" * 20):
        await serve(lab, opener=other)
        (problem,) = await lab.rail.list_problems()
        assert problem == f"{DEVNET.name}: the contract at {other} is not Florin's opener"
        this_item = await item(lab, make_contract_account(OWNER, salt=int(other[-1], 16)))
        reason, _ = await refusal(lab, this_item.option, *this_item.confirmation.outputs)
        assert reason == "unreadable_output"


async def test_opener_returns_the_result_of_its_target(lab):
    settlement = bytes.fromhex("12345678")
    for target, answer in (
        (await lab.deploy(ACCEPTS_ALL), "0x1626ba7e" + "00" * 28),
        ("0x" + "77" * 20, "0x"),
    ):
        data = erc6492.encode_open_and_call([], target, settlement)
        question = {"to": DEVNET.opener, "data": "0x" + data.hex()}
        assert await lab.control.call("eth_call", question, "latest") == answer
    says_no = await lab.deploy("63deadbeef5f526004601cfd")
    data = erc6492.encode_open_and_call([], says_no, settlement)
    with pytest.raises(RpcError) as caught:
        await lab.control.call(
            "eth_call", {"to": DEVNET.opener, "data": "0x" + data.hex()}, "latest"
        )
    assert (caught.value.is_revert, caught.value.data) == (True, "0xdeadbeef")


async def test_the_opener_starves_no_factory(lab):
    account = make_contract_account(OWNER)
    opening = erc6492.AccountCreation(account.address, account.factory, account.data)
    data = erc6492.encode_open_and_call([opening], "0x" + "77" * 20, b"")
    question = {"to": DEVNET.opener, "data": "0x" + data.hex()}
    with pytest.raises(RpcError) as caught:
        await lab.control.call("eth_call", question | {"gas": hex(500_000)}, "latest")
    assert caught.value.is_revert
    assert await lab.control.call("eth_call", question | {"gas": hex(560_000)}, "latest") == "0x"


def test_the_places_of_accounts_are_those_of_the_standard():
    # an example of EIP-1014
    nowhere = "0x" + "00" * 20
    assert (
        compute_create2_address(nowhere, bytes(32), b"\0")
        == "0x4d1a2e2bb4f88f0250f26ffff098b0b30b26bf38"
    )


async def test_the_factory_and_the_tests_agree_where_an_account_is(lab):
    account = make_contract_account(
        Account.from_key(b"\x07" * 32), salt=5, calls=[make_approval(MERCHANT, PERMIT2, 1)]
    )
    question = erc6492.abi.encode_selector("addressOf(address,bytes32,(address,bytes)[])")
    request = {"to": account.factory, "data": "0x" + (question + account.data[4:]).hex()}
    answer = await lab.control.call("eth_call", request, "latest")
    assert answer[-40:] == account.address[2:]
