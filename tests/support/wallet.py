"""The client's wallet with one key, created on the spot, on a chain that tests call."""

from __future__ import annotations

import json
import secrets
from typing import Any

from eth_account import Account
from florin_client import wallet as client
from florin_client.wallet.evm import to_transaction_fields

from tests.support.chain import ChainClient

# an address without code: an account that delegates to it (EIP-7702) accepts every call, without
# data
NON_SIGNING_ADDRESS = "0x" + "de" * 20


class EvmTestWallet:
    def __init__(self, chain: str = "eip155:31337", *, key: bytes | None = None) -> None:
        self.chain = chain
        secret = key or secrets.token_bytes(32)
        self._wallet = client.Wallet(evm_key=secret)
        # for what no honest wallet signs
        self._account = Account.from_key(secret)
        self.address = self._wallet.evm.address

    @property
    def account(self) -> str:
        """Return the account as CAIP-10."""
        return f"{self.chain}:{self.address}"

    def sign(self, typed_data: dict[str, Any]) -> str:
        return self._wallet.evm.sign_typed_data(typed_data)

    def execute(self, action: dict[str, Any]) -> str:
        """Sign a walletRpc action without checks: tests sign what no wallet should."""
        return self.sign(get_typed_data(action))

    async def delegate(self, chain: ChainClient, contract: str) -> None:
        """Give the account the code of a contract (EIP-7702), and verify that it has it."""
        await self.take_code(chain, contract)
        assert await chain.ask("eth_getCode", self.address, "latest") != "0x"

    async def take_code(self, chain: ChainClient, contract: str) -> None:
        """Give the account the code of a contract, unless its block is replaced."""
        nonce = int(await chain.ask("eth_getTransactionCount", self.address, "latest"), 16)
        number = int(self.chain.partition(":")[2])
        # a sender of the transaction itself has used one nonce by then
        signed = self._account.sign_authorization(
            {"chainId": number, "address": contract, "nonce": nonce + 1}
        )
        unused_address = b"\x11" * 20  # a call to itself would run the code at once
        await self.transact(
            chain, gas=200_000, to=unused_address, value=0, authorizationList=[signed]
        )

    async def deploy(self, chain: ChainClient, runtime: bytes) -> str:
        """Deploy a contract with that code; return its CAIP-10."""
        creation = b"\x61" + len(runtime).to_bytes(2, "big") + bytes.fromhex("80600a3d393df3")
        receipt = await self.transact(chain, gas=500_000, value=0, data=creation + runtime)
        return f"{self.chain}:{receipt['contractAddress']}"

    async def send(self, chain: ChainClient, action: dict[str, Any]) -> str:
        """Return the hash of an eth_sendTransaction's transaction, once it is mined."""
        (call,) = get_params(action)
        assert call["from"] == self.address.lower()
        gas = await self.gas_for(chain, call)
        receipt = await self.transact(chain, gas=gas, **to_transaction_fields(call))
        return str(receipt["transactionHash"])

    async def gas_for(self, chain: ChainClient, call: dict[str, Any]) -> int:
        """Return the gas that a call is sent with: its use in the newest block."""
        return int(await chain.ask("eth_estimateGas", call), 16)

    async def transact(self, chain: ChainClient, **fields: Any) -> dict[str, Any]:
        """Send a transaction; return its receipt."""
        usual = {"maxFeePerGas": 10**11, "maxPriorityFeePerGas": 10**9}
        asking = self._wallet.evm.transact(self.chain, **(usual | fields))
        question = next(asking)
        while question.method != "eth_sendRawTransaction":
            question = asking.send(await chain.ask(question.method, *question.params))
        (raw,) = question.params
        receipt: dict[str, Any] = await chain.send(bytes.fromhex(raw[2:]))
        assert receipt["status"] == "0x1"
        return receipt

    async def perform(self, chain: ChainClient, actions: list[dict[str, Any]]) -> list[str]:
        """Execute walletRpc actions one after the other; return their outputs."""
        return [
            await self.send(chain, action)
            if action["data"]["method"] == "eth_sendTransaction"
            else self.execute(action)
            for action in actions
        ]

    def execute_all(self, option: dict[str, Any]) -> list[str]:
        return [self.execute(action) for action in option["actions"]]


def get_params(action: dict[str, Any]) -> list[Any]:
    """Return the parameters in either profile."""
    (step,) = client.steps_of([action])
    return [*step.params]


def get_typed_data(action: dict[str, Any]) -> dict[str, Any]:
    assert action["data"]["method"] == "eth_signTypedData_v4"
    _signer, text = get_params(action)
    return json.loads(text)
