"""Test signed payments through the settlement contract on the embedded chain."""

from __future__ import annotations

import pytest
from florin_sandbox.devnet.evm import DEVNET
from florin_server.domain.chains.evm.route import RouteKind
from florin_server.rails.evm.sending.fees import KEY_GAS

from tests.support.devnet_tokens import FALSE_TOKEN, SILENT_TOKEN
from tests.support.evm_devnet import (
    ETHER,
    FAILED,
    FAUCET,
    FEES,
    GWEI,
    ITEM_GAS,
    MERCHANT,
    ONE,
    PAID,
    PAY_TYPE,
    START_S,
    EvmNodeClient,
    EvmNodeError,
    encode_call,
    get_failure,
    list_events,
    make_account,
    make_payment,
    make_reference,
    make_route_nonce,
    open_node,
    sign_authorization,
    sign_typed,
)

NOWHERE = "0x" + "00" * 20
RELAYER = make_account(2)
STRANGER = make_account(3)
BUYER = make_account(4)
# the last is the forwarder's
SETTLER_KINDS = [kind for kind in RouteKind if kind is not RouteKind.FORWARD]


@pytest.fixture
async def node():
    async with open_node() as node:
        await node.fund(RELAYER.address, STRANGER.address)
        only_tokens = {"accounts": [BUYER.address], "nativeWei": "0x0"}
        await node.ask("florin_faucet", only_tokens)
        yield node


async def settled(node: EvmNodeClient) -> int:
    return await node.tokens(MERCHANT)


async def test_a_buyer_without_gas_pays(node):
    assert await node.ask("eth_getBalance", BUYER.address) == "0x0"
    paid = make_payment(BUYER, 1, fee=50_000)
    receipt = await node.settle(RELAYER, paid)
    assert receipt["status"] == "0x1"
    assert await settled(node) == 4_950_000
    assert await node.tokens(FEES) == 50_000
    assert await node.tokens(DEVNET.settler) == 0
    (log,) = list_events(receipt, PAID)
    words = [log["data"][2:][at : at + 64] for at in range(0, 320, 64)]
    assert log["topics"][1] == "0x" + make_reference(1).hex()
    assert log["topics"][2].endswith(BUYER.address[2:].lower())
    assert log["topics"][3].endswith(MERCHANT[2:])
    assert words[0].endswith(DEVNET.token.address[2:])
    result = [5_000_000, int(FEES, 16), 50_000, int.from_bytes(make_route_nonce(paid), "big")]
    assert [int(word, 16) for word in words[1:]] == result


async def test_each_way_to_pay_and_each_end_has_a_nonce_of_its_own(node):
    item = make_payment(BUYER, 1)
    other = (*item[:4], item[4] + 1, *item[5:])
    nonces = {
        await node.read(DEVNET.settler, f"routeNonce(uint8,{PAY_TYPE})", kind, each_item)
        for kind in SETTLER_KINDS
        for each_item in (item, other)
    }
    assert len(nonces) == 6


@pytest.mark.parametrize("kind", SETTLER_KINDS)
async def test_the_contract_hashes_routes_as_the_service_does(node, kind):
    item = make_payment(BUYER, 1, fee=7)
    result = await node.read(DEVNET.settler, f"routeNonce(uint8,{PAY_TYPE})", kind, item)
    assert result == int.from_bytes(make_route_nonce(item, kind=kind), "big")


async def test_a_replay_moves_nothing(node):
    item = make_payment(BUYER, 1)
    await node.settle(RELAYER, item)
    receipt = await node.settle(RELAYER, item)
    assert receipt["status"] == "0x1"
    assert b"used or canceled" in get_failure(receipt)
    assert await settled(node) == 5_000_000


@pytest.mark.parametrize(
    ("window", "reason"),
    [
        ({"before": START_S}, b"expired"),
        ({"after": START_S}, b"not yet valid"),
    ],
)
async def test_the_validity_ends_are_exclusive(node, window, reason):
    receipt = await node.settle(RELAYER, make_payment(BUYER, 1, **window))
    assert reason in get_failure(receipt)
    assert await settled(node) == 0


async def test_payment_becomes_valid_after_its_start_time(node):
    item = make_payment(BUYER, 1, after=START_S + 10)
    node.clock.advance(11)
    assert list_events(await node.settle(RELAYER, item), PAID)


@pytest.mark.parametrize("field", [2, 3, 4, 5, 6, 7, 8])
async def test_no_part_of_the_route_can_be_changed(node, field):
    item = list(make_payment(BUYER, 1, fee=50_000))
    item[field] = {
        2: 6_000_000,
        3: 1,
        4: START_S + 901,
        5: STRANGER.address,
        6: STRANGER.address,
        7: 60_000,
        8: make_reference(2),
    }[field]
    receipt = await node.settle(STRANGER, tuple(item))
    assert b"invalid signature" in get_failure(receipt)
    assert await node.tokens(STRANGER.address) > 0  # only what the faucet gave
    assert await node.tokens(BUYER.address) == 10_000_000_000


async def test_stranger_can_only_execute_the_signed_payment(node):
    receipt = await node.settle(STRANGER, make_payment(BUYER, 1, fee=50_000))
    assert list_events(receipt, PAID)
    assert (await settled(node), await node.tokens(FEES)) == (4_950_000, 50_000)


async def test_a_stranger_cannot_take_the_money_at_the_token(node):
    token, buyer, value, after, before, *_, signature = item = make_payment(BUYER, 1)
    data = encode_call(
        "receiveWithAuthorization(address,address,uint256,uint256,uint256,bytes32,bytes)",
        *(buyer, DEVNET.settler, value, after, before, make_route_nonce(item), signature),
    )
    assert (await node.run(STRANGER, token, data))["status"] == "0x0"


async def test_a_signature_for_another_chain_is_worthless(node):
    receipt = await node.settle(RELAYER, make_payment(BUYER, 1, chain_id=1))
    assert b"invalid signature" in get_failure(receipt)


async def test_a_cancelled_authorization_cannot_be_settled(node):
    item = make_payment(BUYER, 1)
    cancel = {"authorizer": BUYER.address, "nonce": make_route_nonce(item)}
    fields = [{"name": "authorizer", "type": "address"}, {"name": "nonce", "type": "bytes32"}]
    signature = sign_typed(BUYER, "CancelAuthorization", fields, cancel)
    data = encode_call(
        "cancelAuthorization(address,bytes32,uint8,bytes32,bytes32)",
        *(BUYER.address, make_route_nonce(item), signature[64], signature[:32], signature[32:64]),
    )
    assert (await node.run(STRANGER, DEVNET.token.address, data))["status"] == "0x1"
    assert b"used or canceled" in get_failure(await node.settle(RELAYER, item))


async def test_a_bad_payment_leaves_the_rest_of_its_batch_alone(node):
    bad = (*make_payment(BUYER, 2)[:-1], bytes(65))
    items = [make_payment(BUYER, 1), bad, make_payment(BUYER, 3)]
    receipt = await node.settle(RELAYER, *items)
    assert [log["topics"][1][-1] for log in list_events(receipt, PAID)] == ["1", "3"]
    assert [log["topics"][1][-1] for log in list_events(receipt, FAILED)] == ["2"]
    assert await settled(node) == 10_000_000


async def test_call_returns_the_mask_of_payments_that_would_move(node):
    bad = (*make_payment(BUYER, 2)[:-1], bytes(65))
    data = encode_call(
        f"settle3009({PAY_TYPE}[])", [make_payment(BUYER, 1), bad, make_payment(BUYER, 3)]
    )
    assert int(await node.ask("eth_call", {"to": DEVNET.settler, "data": data}), 16) == 0b101


async def test_single_payment_reverts_with_the_reason_of_the_token(node):
    call = {
        "to": DEVNET.settler,
        "data": encode_call(ONE, make_payment(BUYER, 1, before=START_S - 1)),
    }
    with pytest.raises(
        EvmNodeError, match="execution reverted: TestDollar: authorization is expired"
    ):
        await node.ask("eth_call", call)
    receipt = await node.run(RELAYER, DEVNET.settler, encode_call(ONE, make_payment(BUYER, 1)))
    assert list_events(receipt, PAID)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({7: 5_000_001}, "FeeExceedsValue()"),
        ({5: DEVNET.settler}, "RouteEndsHere()"),
        ({6: DEVNET.settler}, "RouteEndsHere()"),
        ({5: NOWHERE}, "RouteEndsNowhere()"),
        ({6: NOWHERE, 7: 1}, "RouteEndsNowhere()"),
    ],
)
async def test_a_senseless_route_is_refused(node, change, error):
    item = list(make_payment(BUYER, 1))
    for field, value in change.items():
        item[field] = value
    receipt = await node.settle(RELAYER, tuple(item))
    assert "0x" + get_failure(receipt).hex() == encode_call(error)


async def test_a_whole_batch_settles(node):
    items = [make_payment(BUYER, number, value=1_000, fee=10) for number in range(50)]
    receipt = await node.settle(RELAYER, *items, gas=8_000_000)
    assert len(list_events(receipt, PAID)) == 50
    assert await settled(node) == 50 * 990
    assert int(receipt["gasUsed"], 16) / 50 < 70_000


async def test_a_frozen_buyer_and_a_paused_token_stop_payments(node):
    token = DEVNET.token.address
    await node.run(FAUCET, token, encode_call("blacklist(address)", BUYER.address))
    assert b"frozen" in get_failure(await node.settle(RELAYER, make_payment(BUYER, 1)))
    await node.run(FAUCET, token, encode_call("unBlacklist(address)", BUYER.address))
    await node.run(FAUCET, token, encode_call("pause()"))
    assert b"paused" in get_failure(await node.settle(RELAYER, make_payment(BUYER, 1)))
    await node.run(FAUCET, token, encode_call("unpause()"))
    assert list_events(await node.settle(RELAYER, make_payment(BUYER, 1)), PAID)


async def test_only_the_owner_mints_freezes_and_pauses(node):
    for data in (
        encode_call("mint(address,uint256)", STRANGER.address, 1),
        encode_call("blacklist(address)", BUYER.address),
        encode_call("pause()"),
    ):
        assert (await node.run(STRANGER, DEVNET.token.address, data))["status"] == "0x0"


async def test_the_token_takes_signed_transfers_and_approvals_in_both_spellings(node):
    token, before = DEVNET.token.address, START_S + 900
    types = "address,address,uint256,uint256,uint256,bytes32"
    for number, split in ((1, True), (2, False)):
        message = {
            "from": BUYER.address,
            "to": MERCHANT,
            "value": 10,
            "validAfter": 0,
            "validBefore": before,
            "nonce": make_reference(number),
        }
        signature = sign_authorization(BUYER, "TransferWithAuthorization", message)
        parts = [signature[64], signature[:32], signature[32:64]] if split else [signature]
        tail = "uint8,bytes32,bytes32" if split else "bytes"
        data = encode_call(
            f"transferWithAuthorization({types},{tail})",
            *(BUYER.address, MERCHANT, 10, 0, before, make_reference(number), *parts),
        )
        assert (await node.run(STRANGER, token, data))["status"] == "0x1"
    assert await settled(node) == 20

    names = ("owner", "spender", "value", "nonce", "deadline")
    fields = [
        {"name": name, "type": "address" if name in ("owner", "spender") else "uint256"}
        for name in names
    ]
    values = (BUYER.address, STRANGER.address, 99, 0, before)
    signature = sign_typed(BUYER, "Permit", fields, dict(zip(names, values, strict=True)))
    data = encode_call(
        "permit(address,address,uint256,uint256,bytes)",
        *(BUYER.address, STRANGER.address, 99, before, signature),
    )
    assert (await node.run(STRANGER, token, data))["status"] == "0x1"
    data = encode_call("transferFrom(address,address,uint256)", BUYER.address, FEES, 99)
    assert (await node.run(STRANGER, token, data))["status"] == "0x1"
    assert await node.tokens(FEES) == 99


# ---- hostile and odd contracts, in bytecode: 5f is PUSH0, 52 MSTORE, f3 RETURN, fd REVERT

YES_WALLET = bytes.fromhex("631626ba7e60e01b5f5260205ff3")  # accepts every signature
ENDLESS_WALLET = bytes.fromhex("5b5f56")  # burns all gas
SHOUTING_TOKEN = bytes.fromhex("620186a05ffd")  # reverts with 100,000 bytes


async def test_a_contract_account_pays_if_it_accepts_the_signature(node):
    wallet = await node.deploy(YES_WALLET)
    await node.ask("florin_faucet", {"accounts": [wallet], "nativeWei": "0x0"})
    item = list(make_payment(BUYER, 1))
    item[1], item[10] = wallet, b"whatever it likes"
    assert list_events(await node.settle(RELAYER, tuple(item)), PAID)


async def test_wallet_that_burns_its_gas_does_not_affect_other_payments(node):
    wallet = await node.deploy(ENDLESS_WALLET)
    hostile = list(make_payment(BUYER, 2))
    hostile[1] = wallet
    items = [make_payment(BUYER, 1), tuple(hostile), make_payment(BUYER, 3)]
    receipt = await node.settle(RELAYER, *items, gas=900_000)
    assert [log["topics"][1][-1] for log in list_events(receipt, PAID)] == ["1", "3"]
    assert int(receipt["gasUsed"], 16) < ITEM_GAS + 250_000


async def test_a_payment_starved_by_its_sender_is_not_called_failed(node):
    wallet = await node.deploy(ENDLESS_WALLET)
    item = list(make_payment(BUYER, 1))
    item[1] = wallet
    receipt = await node.settle(RELAYER, tuple(item), gas=200_000)
    assert (receipt["status"], receipt["logs"]) == ("0x0", [])


async def test_all_payments_move_or_the_call_reverts_for_any_gas_limit(node):
    """This includes the last payment and those after one that burns gas."""
    wallet = await node.deploy(ENDLESS_WALLET)
    burning = list(make_payment(BUYER, 9, gas=KEY_GAS))
    burning[1] = wallet
    items = [
        make_payment(BUYER, 1, gas=KEY_GAS),
        tuple(burning),
        make_payment(BUYER, 2, gas=KEY_GAS),
    ]
    call = {"to": DEVNET.settler, "data": encode_call(f"settle3009({PAY_TYPE}[])", items)}
    masks = []
    for gas in range(50_000, 800_000, 10_000):
        try:
            masks.append(int(await node.ask("eth_call", call | {"gas": hex(gas)}), 16))
        except EvmNodeError:
            masks.append(0)
    enough = masks.index(0b101)
    assert set(masks[:enough]) == {0}
    assert set(masks[enough:]) == {0b101}


async def test_payment_with_too_little_item_gas_fails_alone(node):
    """The caller who chose so little gas pays for it; the buyer's signature stays valid."""
    items = [
        make_payment(BUYER, 1, gas=50_000),
        make_payment(BUYER, 2, gas=0),
        make_payment(BUYER, 3),
    ]
    receipt = await node.settle(RELAYER, *items)
    assert [log["topics"][1][-1] for log in list_events(receipt, PAID)] == ["3"]
    assert [log["topics"][1][-1] for log in list_events(receipt, FAILED)] == ["1", "2"]
    receipt = await node.settle(RELAYER, *(make_payment(BUYER, number) for number in (1, 2)))
    assert len(list_events(receipt, PAID)) == 2


async def test_an_absurd_wish_for_gas_reverts_the_call(node):
    receipt = await node.settle(
        RELAYER, make_payment(BUYER, 1), make_payment(BUYER, 2, gas=2**256 - 1)
    )
    assert (receipt["status"], receipt["logs"]) == ("0x0", [])


async def test_an_estimate_finds_the_gas_at_which_payments_move(node):
    item = make_payment(BUYER, 1, gas=KEY_GAS)
    data = encode_call(f"settle3009({PAY_TYPE}[])", [item])
    gas = int(await node.ask("eth_estimateGas", {"to": DEVNET.settler, "data": data}), 16)
    assert KEY_GAS < gas < KEY_GAS + 50_000
    assert list_events(await node.settle(RELAYER, item, gas=gas), PAID)


async def test_an_endless_reason_is_cut(node):
    token = await node.deploy(SHOUTING_TOKEN)
    item = (token, *make_payment(BUYER, 1)[1:])
    receipt = await node.settle(RELAYER, item)
    assert get_failure(receipt) == bytes(256)
    assert int(receipt["gasUsed"], 16) < 120_000


async def test_token_that_returns_false_fails_and_silent_token_is_paid(node):
    silent, refusing = await node.deploy(SILENT_TOKEN), await node.deploy(FALSE_TOKEN)
    assert list_events(await node.settle(RELAYER, (silent, *make_payment(BUYER, 1)[1:])), PAID)
    receipt = await node.settle(RELAYER, (refusing, *make_payment(BUYER, 1)[1:]))
    assert "0x" + get_failure(receipt).hex() == encode_call("TransferFailed()")


async def test_an_address_without_code_is_no_token(node):
    receipt = await node.settle(RELAYER, (MERCHANT, *make_payment(BUYER, 1)[1:]))
    assert get_failure(receipt) == b""


async def test_reentrant_token_cannot_settle_another_payment(node):
    """The token forwards any call: here, back into the settlement contract."""
    nested = bytes.fromhex(encode_call(ONE, make_payment(BUYER, 2))[2:])
    size = len(nested).to_bytes(2, "big")
    # CODECOPY the nested call after the code, CALL the settler with it, revert if that reverts
    code = bytes.fromhex(f"61{size.hex()}60315f39") + bytes.fromhex(f"5f5f61{size.hex()}5f5f73")
    code += bytes.fromhex(DEVNET.settler[2:]) + bytes.fromhex("5af1602f573d5f5f3e3d5ffd5b00")
    assert len(code) == 0x31
    token = await node.deploy(code + nested)
    receipt = await node.settle(RELAYER, (token, *make_payment(BUYER, 1)[1:]))
    assert "0x" + get_failure(receipt).hex() == encode_call("Reentered()")
    assert await settled(node) == 0


async def test_plain_coin_moves_too(node):
    before = int(await node.ask("eth_getBalance", MERCHANT), 16)
    receipt = await node.run(RELAYER, MERCHANT, "0x", value=ETHER // 2, gas=21_000)
    assert receipt["gasUsed"] == hex(21_000)
    assert int(receipt["effectiveGasPrice"], 16) == 2 * GWEI
    assert int(await node.ask("eth_getBalance", MERCHANT), 16) - before == ETHER // 2
