"""Shared helpers of the embedded chain's tests: a node to call, accounts, and signed payments."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from eth_abi import decode, encode
from eth_account import Account
from eth_account.signers.local import LocalAccount
from eth_hash.auto import keccak
from florin_sandbox.devnet.evm import DEVNET, EvmDevChain, EvmDevSettings
from florin_server.base.clock import Clock, TestClock
from florin_server.domain.chains.evm.route import RouteKind

START_S = 1_800_000_000
GWEI = 10**9
ETHER = 10**18
MERCHANT = "0x" + "aa" * 20
FEES = "0x" + "fe" * 20
ITEM_GAS = 300_000
PAY_TYPE = (
    "(address,address,uint256,uint256,uint256,address,address,uint256,bytes32,uint256,bytes)"  # Pay
)
SETTLE = f"settle3009({PAY_TYPE}[])"
ONE = f"one3009({PAY_TYPE})"
PAID = "0x" + keccak(b"Paid(bytes32,address,address,address,uint256,address,uint256,bytes32)").hex()
FAILED = "0x" + keccak(b"Failed(bytes32,bytes)").hex()
FAUCET = Account.from_key(DEVNET.faucet_key)

_DOMAIN = [
    {"name": "name", "type": "string"},
    {"name": "version", "type": "string"},
    {"name": "chainId", "type": "uint256"},
    {"name": "verifyingContract", "type": "address"},
]
_AUTHORIZATION = [
    {"name": "from", "type": "address"},
    {"name": "to", "type": "address"},
    {"name": "value", "type": "uint256"},
    {"name": "validAfter", "type": "uint256"},
    {"name": "validBefore", "type": "uint256"},
    {"name": "nonce", "type": "bytes32"},
]


class EvmNodeError(Exception):
    """A JSON-RPC error answer."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.code = error["code"]
        self.data = error.get("data")


class EvmNodeClient:
    """The chain under test, called as any client would call it."""

    def __init__(self, chain: EvmDevChain, clock: Clock) -> None:
        self.chain = chain
        self.clock = clock

    async def ask(self, method: str, *params: Any) -> Any:
        request = {"jsonrpc": "2.0", "id": 7, "method": method, "params": list(params)}
        answer = json.loads(await self.chain.handle(json.dumps(request).encode()))
        assert answer["id"] == 7
        if "error" in answer:
            raise EvmNodeError(answer["error"])
        return answer["result"]

    async def number(self) -> int:
        return int(await self.ask("eth_blockNumber"), 16)

    async def mine(self, blocks: int = 1) -> None:
        await self.ask("evm_mine", {"blocks": blocks})

    async def fund(self, *accounts: str) -> None:
        await self.ask("florin_faucet", {"accounts": list(accounts)})

    async def read(self, to: str, signature: str, *args: Any, block: str = "latest") -> int:
        data = encode_call(signature, *args)
        return int(await self.ask("eth_call", {"to": to, "data": data}, block), 16)

    async def tokens(self, account: str, block: str = "latest") -> int:
        return await self.read(DEVNET.token.address, "balanceOf(address)", account, block=block)

    async def receipt(self, transaction_hash: str) -> dict[str, Any]:
        result = await self.ask("eth_getTransactionReceipt", transaction_hash)
        assert result is not None
        return result

    async def send(self, sender: LocalAccount, to: str | None, data: str, **changes: Any) -> str:
        nonce = int(await self.ask("eth_getTransactionCount", sender.address, "pending"), 16)
        raw = sign_transaction(sender, {"to": to, "data": data, "nonce": nonce} | changes)
        return await self.ask("eth_sendRawTransaction", raw)

    async def run(
        self, sender: LocalAccount, to: str | None, data: str, **changes: Any
    ) -> dict[str, Any]:
        return await self.receipt(await self.send(sender, to, data, **changes))

    async def settle(
        self, sender: LocalAccount, *items: tuple[Any, ...], **changes: Any
    ) -> dict[str, Any]:
        return await self.run(sender, DEVNET.settler, encode_call(SETTLE, list(items)), **changes)

    async def deploy(self, runtime: bytes) -> str:
        """Deploy code with the shortest creation code that returns it."""
        creation = b"\x61" + len(runtime).to_bytes(2, "big") + bytes.fromhex("80600a3d393df3")
        receipt = await self.run(FAUCET, None, "0x" + (creation + runtime).hex())
        assert receipt["status"] == "0x1"
        return receipt["contractAddress"]


@asynccontextmanager
async def open_node(
    path: Path | None = None, clock: Clock | None = None, **changes: Any
) -> AsyncIterator[EvmNodeClient]:
    """Open a chain at its first block, or continue a stored one."""
    used = clock if clock is not None else TestClock(START_S * 1_000_000)
    chain = await EvmDevChain.open(path, EvmDevSettings(clock=used, **changes))
    try:
        yield EvmNodeClient(chain, used)
    finally:
        await chain.close()


def sign_transaction(sender: LocalAccount, changes: dict[str, Any]) -> str:
    """Return a raw type-2 transaction."""
    fields = {
        "chainId": DEVNET.chain_id,
        "gas": 3_000_000,
        "maxFeePerGas": 50 * GWEI,
        "maxPriorityFeePerGas": GWEI,
        "value": 0,
        "to": MERCHANT,
        "data": "0x",
        "nonce": 0,
    } | changes
    if fields["to"] is None:
        del fields["to"]
    else:
        fields["to"] = bytes.fromhex(fields["to"][2:])
    return "0x" + bytes(sender.sign_transaction(fields).raw_transaction).hex()


def encode_call(signature: str, *args: Any) -> str:
    """Return the ABI-encoded call of a function."""
    types = decode_types(signature)
    return "0x" + (keccak(signature.encode())[:4] + encode(types, args)).hex()


def decode_types(signature: str) -> list[str]:
    """Return the argument types of a signature, tuples in one piece."""
    inside, depth, types = signature[signature.index("(") + 1 : -1], 0, [""]
    for letter in inside:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            types.append("")
        else:
            types[-1] += letter
    return [text for text in types if text]


def make_account(number: int) -> LocalAccount:
    """Return the account of a number; always the same one."""
    return Account.from_key(number.to_bytes(32, "big"))


def make_reference(number: int) -> bytes:
    return number.to_bytes(32, "big")


def make_route_nonce(
    item: tuple[Any, ...], chain_id: int = DEVNET.chain_id, kind: RouteKind = RouteKind.EIP3009
) -> bytes:
    """Return the nonce that a buyer signs, encoded by another library."""
    token, _, value, _, before, dest, fee_to, fee, ref, *_ = item
    types = ["uint256", "address", "uint8", "address", "uint256", "uint256"]
    types += ["address", "address", "uint256", "bytes32"]
    route = [chain_id, DEVNET.settler, kind, token, value, before, dest, fee_to, fee, ref]
    return keccak(encode(types, route))


def sign_authorization(
    buyer: LocalAccount, kind: str, message: dict[str, Any], chain_id: int = DEVNET.chain_id
) -> bytes:
    """Return a wallet's answer to eth_signTypedData_v4."""
    return sign_typed(buyer, kind, _AUTHORIZATION, message, chain_id)


def sign_typed(
    buyer: LocalAccount,
    kind: str,
    fields: list[dict[str, str]],
    message: dict[str, Any],
    chain_id: int = DEVNET.chain_id,
) -> bytes:
    document = {
        "types": {"EIP712Domain": _DOMAIN, kind: fields},
        "primaryType": kind,
        "domain": {
            "name": DEVNET.token.name,
            "version": DEVNET.token.version,
            "chainId": chain_id,
            "verifyingContract": DEVNET.token.address,
        },
        "message": message,
    }
    return bytes(buyer.sign_typed_data(full_message=document).signature)


def make_payment(
    buyer: LocalAccount,
    number: int,
    value: int = 5_000_000,
    *,
    fee: int = 0,
    after: int = 0,
    before: int = START_S + 900,
    chain_id: int = DEVNET.chain_id,
    gas: int = ITEM_GAS,
) -> tuple[Any, ...]:
    """Return a signed Pay of the settlement contract."""
    token, ref = DEVNET.token.address, make_reference(number)
    item = (token, buyer.address, value, after, before, MERCHANT, FEES, fee, ref, gas, b"")
    message = {
        "from": buyer.address,
        "to": DEVNET.settler,
        "value": value,
        "validAfter": after,
        "validBefore": before,
        "nonce": make_route_nonce(item, chain_id),
    }
    signature = sign_authorization(buyer, "ReceiveWithAuthorization", message, chain_id)
    return (*item[:-1], signature)


def list_events(receipt: dict[str, Any], topic: str) -> list[dict[str, Any]]:
    """Return the settlement contract's events of one kind."""
    settler = DEVNET.settler
    return [
        log
        for log in receipt["logs"]
        if log["address"].lower() == settler and log["topics"][0] == topic
    ]


def get_failure(receipt: dict[str, Any]) -> bytes:
    """Return the reason of the one payment that failed."""
    (log,) = list_events(receipt, FAILED)
    return decode(["bytes"], bytes.fromhex(log["data"][2:]))[0]
