"""Test Permit2 payments on the embedded chain, in a token without signed transfers."""

from __future__ import annotations

from typing import Any

import pytest
from eth_account.signers.local import LocalAccount
from florin_sandbox.devnet.evm import DEVNET
from florin_server.domain.chains.evm.route import RouteKind
from florin_server.domain.chains.evm.typed_data import build_permit2_domain

from tests.support.evm_devnet import (
    FAILED,
    FEES,
    ITEM_GAS,
    MERCHANT,
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
)

RELAYER, STRANGER, BUYER = make_account(2), make_account(3), make_account(4)
VALUE = 5_000_000
GIFT = 10_000_000_000
BOTH = f"settle({PAY_TYPE}[],{PAY_TYPE}[])"
BY_PERMIT2 = f"settlePermit2({PAY_TYPE}[])"
_TRANSFER = (
    "permitTransferFrom(((address,uint256),uint256,uint256),(address,uint256),address,bytes)"
)


@pytest.fixture
async def node():
    async with open_node() as node:
        await node.fund(RELAYER.address, STRANGER.address)
        await gift(node, BUYER.address)
        await approve(node, BUYER, GIFT)
        yield node


async def gift(node: EvmNodeClient, to: str) -> None:
    await node.ask("florin_faucet", {"accounts": [to], "tokens": [DEVNET.euro.address]})


async def approve(node: EvmNodeClient, owner: LocalAccount, amount: int) -> str:
    data = encode_call("approve(address,uint256)", DEVNET.permit2, amount)
    return (await node.run(owner, DEVNET.euro.address, data))["status"]


async def euros(node: EvmNodeClient, of: str) -> int:
    return await node.read(DEVNET.euro.address, "balanceOf(address)", of)


def permit_signature(buyer: LocalAccount, **message: Any) -> bytes:
    """Sign as a wallet answers eth_signTypedData_v4."""
    document = {
        "types": {
            "EIP712Domain": [
                {"name": "name", "type": "string"},
                {"name": "chainId", "type": "uint256"},
                {"name": "verifyingContract", "type": "address"},
            ],
            "PermitTransferFrom": [
                {"name": "permitted", "type": "TokenPermissions"},
                {"name": "spender", "type": "address"},
                {"name": "nonce", "type": "uint256"},
                {"name": "deadline", "type": "uint256"},
            ],
            "TokenPermissions": [
                {"name": "token", "type": "address"},
                {"name": "amount", "type": "uint256"},
            ],
        },
        "primaryType": "PermitTransferFrom",
        "domain": {
            "name": "Permit2",
            "chainId": message.pop("chain_id", DEVNET.chain_id),
            "verifyingContract": DEVNET.permit2,
        },
        "message": message,
    }
    return bytes(buyer.sign_typed_data(full_message=document).signature)


def permit(
    buyer: LocalAccount,
    number: int,
    *,
    fee: int = 0,
    deadline: int = START_S + 900,
    token: str = DEVNET.euro.address,
    **signed: Any,
) -> tuple[Any, ...]:
    """Return a signed Pay for the settlement contract; `signed` can differ from what is paid."""
    ref = make_reference(number)
    item = (token, buyer.address, VALUE, 0, deadline, MERCHANT, FEES, fee, ref, ITEM_GAS, b"")
    message = {
        "permitted": {"token": token, "amount": VALUE},
        "spender": DEVNET.settler,
        "nonce": int.from_bytes(permit_nonce(item), "big"),
        "deadline": deadline,
    }
    return (*item[:-1], permit_signature(buyer, **message | signed))


def permit_nonce(item: tuple[Any, ...]) -> bytes:
    return make_route_nonce(item, kind=RouteKind.PERMIT2)


async def settle(
    node: EvmNodeClient, *items: Any, sender: LocalAccount = RELAYER, **changes: Any
) -> Any:
    return await node.run(sender, DEVNET.settler, encode_call(BY_PERMIT2, list(items)), **changes)


async def test_a_buyer_pays_in_a_token_without_signatures(node):
    receipt = await settle(node, permit(BUYER, 1, fee=50_000))
    assert await euros(node, MERCHANT) == VALUE - 50_000
    assert await euros(node, FEES) == 50_000
    assert await euros(node, DEVNET.settler) == 0
    assert await euros(node, BUYER.address) == GIFT - VALUE
    (log,) = list_events(receipt, PAID)
    assert log["topics"][1] == "0x" + make_reference(1).hex()
    assert log["topics"][2].endswith(BUYER.address[2:].lower())
    assert int(log["data"][2 + 64 : 2 + 128], 16) == VALUE


async def test_it_signs_for_permit2s_own_domain(node):
    result = await node.read(DEVNET.permit2, "DOMAIN_SEPARATOR()")
    assert result == int.from_bytes(
        build_permit2_domain(DEVNET.chain_id).compute_separator(), "big"
    )


async def test_a_permit_is_good_once(node):
    item = permit(BUYER, 1)
    await settle(node, item)
    receipt = await settle(node, item)
    assert "0x" + get_failure(receipt).hex() == encode_call("InvalidNonce()")
    assert await euros(node, MERCHANT) == VALUE


async def test_the_deadline_is_the_last_good_second(node):
    first, second = (permit(BUYER, number, deadline=START_S + 60) for number in (1, 2))
    node.clock.advance(60)
    assert list_events(await settle(node, first), PAID)
    node.clock.advance(1)
    receipt = await settle(node, second)
    assert "0x" + get_failure(receipt).hex() == encode_call(
        "SignatureExpired(uint256)", START_S + 60
    )


@pytest.mark.parametrize("field", [2, 4, 5, 6, 7, 8])
async def test_changed_field_of_a_signed_permit_is_refused(node, field):
    item = list(permit(BUYER, 1, fee=50_000))
    item[field] = {
        2: VALUE - 1,
        4: START_S + 901,
        5: STRANGER.address,
        6: STRANGER.address,
        7: 60_000,
        8: make_reference(2),
    }[field]
    receipt = await settle(node, tuple(item), sender=STRANGER)
    assert "0x" + get_failure(receipt).hex() == encode_call("InvalidSigner()")
    assert await euros(node, BUYER.address) == GIFT


@pytest.mark.parametrize(
    "signed",
    [
        {"spender": STRANGER.address},
        {"chain_id": 1},
        {"nonce": 7},
        {"permitted": {"token": DEVNET.token.address, "amount": VALUE}},
    ],
    ids=lambda signed: next(iter(signed)),
)
async def test_a_signature_for_something_else_is_worthless(node, signed):
    receipt = await settle(node, permit(BUYER, 1, **signed))
    assert "0x" + get_failure(receipt).hex() == encode_call("InvalidSigner()")


async def test_stranger_can_only_execute_the_signed_permit(node):
    item = permit(BUYER, 1)
    nonce = int.from_bytes(permit_nonce(item), "big")
    permitted = ((DEVNET.euro.address, VALUE), nonce, START_S + 900)
    data = encode_call(_TRANSFER, permitted, (STRANGER.address, VALUE), BUYER.address, item[10])
    assert (await node.run(STRANGER, DEVNET.permit2, data))["status"] == "0x0"
    assert list_events(await settle(node, item, sender=STRANGER), PAID)
    assert await euros(node, MERCHANT) == VALUE


async def test_a_spender_takes_no_more_than_was_permitted(node):
    nonce, deadline = 5, START_S + 900
    permitted = {"token": DEVNET.euro.address, "amount": VALUE}
    signature = permit_signature(
        BUYER, permitted=permitted, spender=STRANGER.address, nonce=nonce, deadline=deadline
    )
    for amount, status in ((VALUE + 1, "0x0"), (VALUE - 1, "0x1"), (1, "0x0")):
        what = ((DEVNET.euro.address, VALUE), nonce, deadline)
        data = encode_call(_TRANSFER, what, (FEES, amount), BUYER.address, signature)
        assert (await node.run(STRANGER, DEVNET.permit2, data))["status"] == status
    assert await euros(node, FEES) == VALUE - 1


async def test_the_short_spelling_of_a_signature_is_good(node):
    item = list(permit(BUYER, 1))
    r, s, v = item[10][:32], int.from_bytes(item[10][32:64], "big"), item[10][64]
    item[10] = r + (s | (v - 27) << 255).to_bytes(32, "big")
    assert list_events(await settle(node, tuple(item)), PAID)


@pytest.mark.parametrize("signature", [b"", bytes(64), bytes(65), b"\xff" * 65, bytes(66)])
async def test_invalid_signature_moves_nothing(node, signature):
    receipt = await settle(node, (*permit(BUYER, 1)[:-1], signature))
    assert "0x" + get_failure(receipt).hex() == encode_call("InvalidSigner()")


async def test_a_nonce_that_its_owner_gave_up_is_used(node):
    item = permit(BUYER, 1)
    nonce = int.from_bytes(permit_nonce(item), "big")
    data = encode_call("invalidateUnorderedNonces(uint256,uint256)", nonce >> 8, 1 << (nonce & 255))
    await node.run(BUYER, DEVNET.permit2, data, gas=100_000)
    assert "0x" + get_failure(await settle(node, item)).hex() == encode_call("InvalidNonce()")
    bits = await node.read(
        DEVNET.permit2, "nonceBitmap(address,uint256)", BUYER.address, nonce >> 8
    )
    assert bits == 1 << (nonce & 255)


async def test_without_an_allowance_nothing_moves(node):
    assert await approve(node, BUYER, 0) == "0x1"
    receipt = await settle(node, permit(BUYER, 1))
    assert "0x" + get_failure(receipt).hex() == encode_call("TransferFromFailed()")
    assert await approve(node, BUYER, VALUE) == "0x1"
    assert list_events(await settle(node, permit(BUYER, 1)), PAID)


async def test_an_allowance_goes_through_zero(node):
    assert await approve(node, BUYER, VALUE) == "0x0"
    assert [await approve(node, BUYER, amount) for amount in (0, VALUE)] == ["0x1", "0x1"]


async def test_the_token_moves_and_mints_like_the_old_ones(node):
    euro = DEVNET.euro.address
    unapproved = encode_call("transferFrom(address,address,uint256)", BUYER.address, FEES, 1)
    for sender, call, status in (
        (BUYER, encode_call("transfer(address,uint256)", FEES, 3), "0x1"),
        (BUYER, encode_call("transfer(address,uint256)", FEES, GIFT), "0x0"),
        (STRANGER, encode_call("mint(address,uint256)", FEES, 1), "0x0"),
        (STRANGER, unapproved, "0x0"),
    ):
        assert (await node.run(sender, euro, call))["status"] == status
    assert await euros(node, FEES) == 3
    assert await node.read(euro, "totalSupply()") == GIFT
    nothing = encode_call("transfer(address,uint256)", FEES, 0)
    assert await node.ask("eth_call", {"to": euro, "data": nothing}) == "0x"


# forwards every call to the token, and accepts every signature
WALLET = bytes.fromhex(
    "5f3560e01c631626ba7e14602f57365f5f375f5f365f5f73"
    + DEVNET.euro.address[2:]
    + "5af1005b631626ba7e60e01b5f5260205ff3"
)


async def test_a_contract_account_pays_if_it_accepts_the_signature(node):
    wallet = await node.deploy(WALLET)
    await gift(node, wallet)
    approval = encode_call("approve(address,uint256)", DEVNET.permit2, VALUE)
    assert (await node.run(STRANGER, wallet, approval))["status"] == "0x1"
    item = list(permit(BUYER, 1))
    item[1], item[10] = wallet, b"whatever it likes"
    assert list_events(await settle(node, tuple(item)), PAID)


async def test_a_contract_account_that_does_not_sign_does_not_pay(node):
    item = list(permit(BUYER, 1))
    item[1] = DEVNET.settler
    assert get_failure(await settle(node, tuple(item))) == b""


async def test_payments_of_both_kinds_share_a_transaction(node):
    await node.ask("florin_faucet", {"accounts": [BUYER.address], "nativeWei": "0x0"})
    bad = (*permit(BUYER, 5)[:-1], bytes(65))
    signed = [make_payment(BUYER, 1), make_payment(BUYER, 2)]
    permitted = [permit(BUYER, 4), bad, permit(BUYER, 6)]
    call = encode_call(BOTH, signed, permitted)
    assert int(await node.ask("eth_call", {"to": DEVNET.settler, "data": call}), 16) == 0b10111
    receipt = await node.run(RELAYER, DEVNET.settler, call)
    assert [log["topics"][1][-1] for log in list_events(receipt, PAID)] == ["1", "2", "4", "6"]
    assert [log["topics"][1][-1] for log in list_events(receipt, FAILED)] == ["5"]
    assert (await node.tokens(MERCHANT), await euros(node, MERCHANT)) == (2 * VALUE, 2 * VALUE)


async def test_no_more_than_the_bits_of_the_answer(node):
    few, many = [permit(BUYER, 1)] * 2, [make_payment(BUYER, 1)] * 255
    for call in (encode_call(BOTH, many, few), encode_call(BY_PERMIT2, few * 129)):
        with pytest.raises(EvmNodeError) as refused:
            await node.ask("eth_call", {"to": DEVNET.settler, "data": call, "gas": hex(2**24)})
        assert refused.value.data == encode_call("TooMany()")


async def test_an_address_without_code_is_no_token(node):
    receipt = await settle(node, permit(BUYER, 1, token=MERCHANT))
    assert "0x" + get_failure(receipt).hex() == encode_call("TransferFailed()")


async def test_a_whole_batch_settles(node):
    receipt = await settle(node, *(permit(BUYER, n) for n in range(1, 51)), gas=8_000_000)
    assert len(list_events(receipt, PAID)) == 50
    assert int(receipt["gasUsed"], 16) / 50 < 72_000
