"""What `florin pay` signs is what its option costs, whatever a server asks for."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from florin.v1.gateway_pb2 import PaymentOption
from florin_client.wallet import Step, WalletError
from florin_server.chains.solana import spl
from florin_server.cli.wallet import meaning
from florin_server.rails.evm import settler
from florin_server.rails.evm.paying.terms import APPROVE
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import Message
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

EVM, SOLANA = "eip155:8453", "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"
OWN, TOKEN, OTHER = ("0x" + one * 20 for one in ("aa", "cc", "ee"))
PRICE = 12_500_000


def option(asset: str = f"erc20:{TOKEN}", account: str = f"{EVM}:{OWN}") -> PaymentOption:
    chain = account.rpartition(":")[0]
    made = PaymentOption(account=account)
    made.amount.unit, made.amount.value = f"caip19/{chain}/{asset}", str(PRICE)
    return made


def typed(kind: str, message: dict[str, Any], contract: str, chain_id: Any = "0x2105") -> Step:
    data = {
        "primaryType": kind,
        "domain": {"verifyingContract": contract, "chainId": chain_id},
        "message": message,
    }
    return Step(EVM, "eth_signTypedData_v4", (OWN, json.dumps(data)))


def authorization(**changes: Any) -> Step:
    message = {"from": OWN, "to": OTHER, "value": hex(PRICE), "validBefore": "0x10"}
    return typed("ReceiveWithAuthorization", message | changes, TOKEN)


def permit(token: str = TOKEN, amount: int = PRICE) -> Step:
    message = {
        "permitted": {"token": token, "amount": hex(amount)},
        "spender": OTHER,
        "deadline": "0x10",
    }
    return typed("PermitTransferFrom", message, "0x" + "22" * 20)


def sent(data: str, to: str = TOKEN, account: str = OWN, **more: str) -> Step:
    return Step(EVM, "eth_sendTransaction", ({"from": account, "to": to, "data": data, **more},))


def approval(amount: int, selector: str = meaning.APPROVE) -> str:
    return f"0x{selector}{OTHER[2:].rjust(64, '0')}{amount:064x}"


def test_the_calls_are_those_of_the_settlement():
    assert (settler.PAY.hex(), APPROVE.hex()) == (meaning.PAY, meaning.APPROVE)


@pytest.mark.parametrize(
    "step",
    [
        authorization(),
        permit(),
        sent(approval(PRICE)),
        sent(approval(0)),
        sent(f"0x{meaning.PAY}00", OTHER),
    ],
)
def test_what_costs_the_price_is_told(step):
    assert meaning.of(step, option())


LIES = {
    "more": authorization(value=hex(PRICE + 1)),
    "less, so that it is another payment": authorization(value=hex(PRICE - 1)),
    "somebody else's money": authorization(**{"from": OTHER}),
    "another token": typed(
        "ReceiveWithAuthorization",
        {"from": OWN, "to": OTHER, "value": PRICE, "validBefore": 1},
        OTHER,
    ),
    "another chain in the domain": typed(
        "ReceiveWithAuthorization",
        {"from": OWN, "to": OTHER, "value": PRICE, "validBefore": 1},
        TOKEN,
        1,
    ),
    "more by Permit2": permit(amount=2**160),
    "another token by Permit2": permit(token=OTHER),
    "a permit without an end": typed("Permit", {"value": PRICE}, TOKEN),
    "an order of an exchange": typed("OrderComponents", {}, OTHER),
    "more for a spender": sent(approval(2**256 - 1)),
    "another token for a spender": sent(approval(PRICE), OTHER),
    "a transfer": sent(approval(PRICE, "a9059cbb")),
    "more allowance": sent(approval(PRICE, "39509351")),
    "coin beside a token": sent(f"0x{meaning.PAY}00", OTHER, value="0x1"),
    "coin beside an approval": sent(approval(PRICE), value="0x1"),
    "somebody else's call": sent(f"0x{meaning.PAY}00", OTHER, OTHER),
    "a plain sending": sent("0x", OTHER, value=hex(PRICE)),
    "a hash": Step(EVM, "personal_sign", ("0x00", OWN)),
    "another chain": Step("eip155:1", "eth_sendTransaction", ({"from": OWN, "to": OTHER},)),
    "nothing to read": Step(EVM, "eth_signTypedData_v4", (OWN, "[]")),
    "half an approval": sent(approval(PRICE)[:-2]),
}


@pytest.mark.parametrize("step", LIES.values(), ids=LIES)
def test_what_a_lying_server_asks_for_is_not_signed(step):
    with pytest.raises(WalletError):
        meaning.of(step, option())


def test_coin_costs_exactly_the_price():
    coin = option("slip44:60")
    assert meaning.of(sent(f"0x{meaning.PAY}00", OTHER, value=hex(PRICE)), coin)
    for value in ("0x0", hex(PRICE + 1)):
        with pytest.raises(WalletError):
            meaning.of(sent(f"0x{meaning.PAY}00", OTHER, value=value), coin)
    # no approval is asked of whoever pays in coin
    with pytest.raises(WalletError):
        meaning.of(sent(approval(PRICE)), coin)


def test_an_option_of_another_chain_than_its_account_is_refused():
    wrong = option()
    wrong.amount.unit = f"caip19/eip155:1/erc20:{TOKEN}"
    with pytest.raises(WalletError):
        meaning.of(authorization(), wrong)


OWNER, RELAYER = Keypair(), Keypair()
MINT, PLACE, DEST = (Pubkey.new_unique() for _ in range(3))


def transfer(amount: int = PRICE, mint: Pubkey = MINT) -> Instruction:
    return spl.transfer_checked(
        spl.TOKEN, mint, 6, owner=OWNER.pubkey(), source=PLACE, dest=DEST, amount=amount
    )


def lamports(amount: int = PRICE) -> Instruction:
    return spl.transfer_coin(OWNER.pubkey(), DEST, amount)


def named(program: Pubkey, data: bytes) -> Instruction:
    return Instruction(program, data, [AccountMeta(OWNER.pubkey(), True, True)])


def signing(*instructions: Instruction, payer: Keypair = RELAYER) -> Step:
    message = Message.new_with_blockhash(instructions, payer.pubkey(), Hash.default())
    made = VersionedTransaction.populate(message, [])
    raw = base64.b64encode(bytes(made)).decode()
    return Step(SOLANA, "solana_signTransaction", ({"transaction": raw},))


def on_solana(asset: str) -> PaymentOption:
    return option(asset, f"{SOLANA}:{OWNER.pubkey()}")


def test_a_transaction_of_solana_takes_the_price():
    token, coin = on_solana(f"token:{MINT}"), on_solana("slip44:501")
    assert meaning.of(signing(transfer(), spl.memo("ref")), token)
    # the fee is a part of it
    assert meaning.of(signing(transfer(PRICE - 5), transfer(5)), token)
    opening = spl.create_associated(RELAYER.pubkey(), OWNER.pubkey(), MINT, spl.TOKEN)
    assert meaning.of(signing(opening, transfer()), token)
    assert meaning.of(signing(lamports()), coin)


SOLANA_LIES = {
    "more": signing(transfer(PRICE + 1)),
    "less": signing(transfer(PRICE - 1)),
    "twice": signing(transfer(), transfer()),
    "another token": signing(transfer(), transfer(1, Pubkey.new_unique())),
    "coin beside a token": signing(transfer(), lamports(1)),
    "an owner of the account": signing(transfer(), named(spl.TOKEN, b"\x06\x02\x00")),
    "a delegate": signing(transfer(), named(spl.TOKEN, b"\x04" + b"\xff" * 8)),
    "a program that nobody knows": signing(transfer(), named(Pubkey.new_unique(), b"")),
    "the fee of the transaction": signing(transfer(), payer=OWNER),
    "an account that the buyer pays for": signing(
        transfer(), spl.create_associated(OWNER.pubkey(), DEST, MINT, spl.TOKEN)
    ),
    "nothing": signing(spl.memo("ref")),
    "no transaction": Step(SOLANA, "solana_signTransaction", ({"transaction": "AAAA"},)),
    "no base64": Step(SOLANA, "solana_signTransaction", ({"transaction": "!"},)),
}


@pytest.mark.parametrize("step", SOLANA_LIES.values(), ids=SOLANA_LIES)
def test_what_a_lying_server_asks_of_solana_is_not_signed(step):
    with pytest.raises(WalletError):
        meaning.of(step, on_solana(f"token:{MINT}"))


def test_a_coin_of_solana_costs_exactly_the_price():
    for step in (
        signing(lamports(PRICE + 1)),
        signing(transfer()),
        signing(lamports(), lamports()),
    ):
        with pytest.raises(WalletError):
            meaning.of(step, on_solana("slip44:501"))
