"""What a buyer's wallet does with the actions that it is given: it signs, or it sends."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from eth_account import Account
from eth_account.messages import encode_typed_data
from solders.keypair import Keypair
from solders.message import to_bytes_versioned
from solders.transaction import VersionedTransaction

from florin_server.devnet.genesis import DEVNET
from florin_server.devnet.solana import SOLNET
from florin_server.simulation.nodes import Node
from florin_server.simulation.population import Purse

EVM = f"eip155:{DEVNET.chain_id}"
# far above what the embedded chain takes
_FEES = {"maxFeePerGas": 10**11, "maxPriorityFeePerGas": 10**9}

Mined = Callable[[str], Awaitable[None]]


class EvmWallet:
    """A plain key. `mined` returns once a transaction is in a block."""

    def __init__(self, secret: bytes, node: Node, mined: Mined) -> None:
        self._account = Account.from_key(secret)
        self._node = node
        self._mined = mined
        self.address = str(self._account.address)
        self.account = f"{EVM}:{self.address}"

    async def perform(self, actions: Sequence[dict[str, Any]]) -> list[str]:
        """The outputs of actions, done one after the other."""
        return [await self._do(one["data"]) for one in actions]

    async def _do(self, call: dict[str, Any]) -> str:
        params = json.loads(call["params"])
        if call["method"] == "eth_signTypedData_v4":
            signable = encode_typed_data(full_message=json.loads(params[1]))
            return "0x" + bytes(self._account.sign_message(signable).signature).hex()
        return await self._send(params[0])

    async def _send(self, call: dict[str, Any]) -> str:
        ask = self._node.ask
        fields = {
            "chainId": DEVNET.chain_id,
            "nonce": int(await ask("eth_getTransactionCount", self.address, "pending"), 16),
            "gas": int(await ask("eth_estimateGas", call), 16),
            "to": bytes.fromhex(call["to"][2:]),
            "value": int(call.get("value", "0x0"), 16),
            "data": call["data"],
            **_FEES,
        }
        signed = self._account.sign_transaction(fields)
        sent: str = await ask("eth_sendRawTransaction", "0x" + signed.raw_transaction.hex())
        await self._mined(sent)
        return sent


class SolanaWallet:
    """Signs transactions, and sends none: the relayer does."""

    def __init__(self, secret: bytes) -> None:
        self._key = Keypair.from_seed(secret)
        self.address = str(self._key.pubkey())
        self.account = f"{SOLNET.chain_id}:{self.address}"

    async def perform(self, actions: Sequence[dict[str, Any]]) -> list[str]:
        """The same for transactions, in base64."""
        return [self._sign(json.loads(one["data"]["params"])) for one in actions]

    def _sign(self, params: list[dict[str, str]]) -> str:
        raw = base64.b64decode(params[0]["transaction"])
        transaction = VersionedTransaction.from_bytes(raw)
        message, signatures = transaction.message, list(transaction.signatures)
        place = message.account_keys.index(self._key.pubkey())
        signatures[place] = self._key.sign_message(to_bytes_versioned(message))
        signed = VersionedTransaction.populate(message, signatures)
        return base64.b64encode(bytes(signed)).decode()


Wallet = EvmWallet | SolanaWallet


def wallet_of(purse: Purse, name: str, node: Node, mined: Mined) -> Wallet:
    """The wallet of a buyer; the same name has the same key."""
    secret = hashlib.sha256(f"florin simulation {name}".encode()).digest()
    return SolanaWallet(secret) if purse.chain == "solana" else EvmWallet(secret, node, mined)


# what each purse pays with, by CAIP-19
ASSETS = {
    Purse.DOLLARS: f"{EVM}/erc20:{DEVNET.token.address}",
    Purse.EUROS: f"{EVM}/erc20:{DEVNET.euro.address}",
    Purse.COIN: f"{EVM}/slip44:60",
    Purse.SOLANA: f"{SOLNET.chain_id}/token:{SOLNET.tokens[0].address}",
    Purse.SOLANA_2022: f"{SOLNET.chain_id}/token:{SOLNET.tokens[1].address}",
}
