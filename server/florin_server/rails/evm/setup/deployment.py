"""Putting a contract at the same address on every chain: CREATE2 through the common deployer.

Nobody has a key of the deployer: one transaction, whose signature was chosen and not computed,
makes it at the same address everywhere. Most chains have it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import rlp
from eth_hash.auto import keccak

from florin_server.chains.evm.abi import data_of
from florin_server.clock import Clock
from florin_server.rails.connection.jsonrpc import RpcError
from florin_server.rails.evm.gas_money import ask_held, held_of, name_of
from florin_server.rails.evm.known_contracts import DEPLOYER
from florin_server.rails.evm.reading.node import LATEST, Node, data, quantity, record
from florin_server.rails.evm.sending.fees import Fees, current_fees
from florin_server.rails.evm.sending.transactions import Signer
from florin_server.rails.evm.settings import GWEI, EvmChain
from florin_server.rails.types import RailUnavailable, Signed

DEPLOYER_CODE: Final = bytes.fromhex(
    "7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffe036016000816020823780358282"
    "34f58015156039578182fd5b8082525050506014600cf3"
)
DEPLOYER_PAYER: Final = "0x3fab184622dc19b6109349b94811493bf2a45362"
_DEPLOYER_GAS: Final = 100_000
_DEPLOYER_GAS_PRICE: Final = 100 * GWEI
DEPLOYER_WEI: Final = _DEPLOYER_GAS * _DEPLOYER_GAS_PRICE
# without a chain id, so that it is good on every chain; r and s were chosen, not computed
DEPLOYER_TRANSACTION: Final[bytes] = rlp.encode(
    [
        0,
        _DEPLOYER_GAS_PRICE,
        _DEPLOYER_GAS,
        b"",
        0,
        bytes.fromhex("604580600e600039806000f350fe") + DEPLOYER_CODE,
        27,
        int("22" * 32, 16),
        int("22" * 32, 16),
    ]
)

# names Florin's settlement contract among what the deployer makes; another salt, another address
SALT: Final[bytes] = keccak(b"florin settlement")

_GAS_MAX: Final = 2**24  # the protocol's own limit for a transaction
# a rollup's price of data may move between estimate and block
_GAS_MARGIN: Final = 4
_WAIT_S: Final = 300.0
_LOOK_S: Final = 0.5


class NotDeployed(Exception):  # noqa: N818  (a decision, told to the operator as it is)
    """The contract was not put on the chain; the text says why."""


@dataclass(frozen=True, slots=True)
class Contract:
    """A contract without constructor arguments: the code that makes it and the code that stays."""

    init_code: bytes
    runtime: bytes

    @property
    def address(self) -> str:
        """Where the deployer puts it on every chain, lower-case."""
        seed = b"\xff" + bytes.fromhex(DEPLOYER[2:]) + SALT + keccak(self.init_code)
        return "0x" + keccak(seed)[12:].hex()


@dataclass(frozen=True, slots=True)
class Step:
    """A transaction that is still missing. Costs are the most that it can take, in wei."""

    to: str
    data: bytes
    value: int
    gas: int
    fees: Fees
    nonce: int

    @property
    def cost(self) -> int:
        """Gas at the highest price, and what is sent along."""
        return self.gas * self.fees.max_fee + self.value


class StepSender:
    """Sends single transactions on one chain for one key, which nobody else uses meanwhile."""

    def __init__(self, node: Node, chain: EvmChain, signer: Signer, clock: Clock) -> None:
        self._node = node
        self._chain = chain
        self._signer = signer
        self._clock = clock

    async def perform(self, step: Step) -> str:
        """Sends a step and returns its hash once it worked."""
        signed = self._signer.sign_call(
            chain_id=self._chain.chain_id,
            nonce=step.nonce,
            fees=step.fees,
            gas=step.gas,
            to=step.to,
            data=step.data,
            value=step.value,
        )
        return await self._mined(signed)

    async def _affordable(self, to: str, payload: bytes, value: int) -> Step:
        sender = self._signer.address
        fees = await current_fees(self._node, self._chain)
        balance, mined, pending = await self._node.batch(
            [
                ask_held(self._chain, sender),
                ("eth_getTransactionCount", (sender, LATEST)),
                ("eth_getTransactionCount", (sender, "pending")),
            ]
        )
        held, money = held_of(self._chain, balance), name_of(self._chain)
        nonce = quantity(mined)
        if quantity(pending) > nonce:
            raise NotDeployed(
                f"{self._chain.name}: a transaction of {sender} is still on its way; try again "
                "when it is in a block"
            )
        call = {"from": sender, "to": to, "data": data_of(payload), "value": hex(value)}
        try:
            estimate = quantity(await self._node.rpc.call("eth_estimateGas", call))
        except RpcError as refusal:
            if held == 0:
                raise NotDeployed(f"{self._chain.name}: {sender} has nothing of {money}") from None
            raise NotDeployed(f"{self._chain.name}: {refusal}") from refusal
        gas = min(estimate + estimate // _GAS_MARGIN, _GAS_MAX)
        step = Step(to, payload, value, gas, fees, nonce)
        if held < step.cost:
            has = coins(held) if held else "nothing"
            raise NotDeployed(
                f"{self._chain.name}: {sender} has {has} of {money}, and this may cost "
                f"{coins(step.cost)}"
            )
        return step

    async def _mined(self, signed: Signed) -> str:
        try:
            await self._node.rpc.call("eth_sendRawTransaction", data_of(signed.raw))
        except RpcError as refusal:
            raise NotDeployed(f"{self._chain.name}: {refusal}") from refusal
        end = self._clock.steady_us() + int(_WAIT_S * 1_000_000)
        while self._clock.steady_us() < end:
            receipt = record(await self._node.ask("eth_getTransactionReceipt", signed.hash))
            if receipt is None:
                await self._clock.sleep(_LOOK_S)
            elif quantity(receipt.get("status")) == 1:
                return signed.hash
            else:
                raise NotDeployed(f"{self._chain.name}: the transaction {signed.hash} failed")
        raise RailUnavailable(
            f"{self._chain.name}: {signed.hash} is in no block yet; try again when it is"
        )


class Deployment(StepSender):
    """One contract on one chain."""

    def __init__(
        self, node: Node, chain: EvmChain, signer: Signer, contract: Contract, clock: Clock
    ) -> None:
        super().__init__(node, chain, signer, clock)
        self._contract = contract

    async def there(self) -> bool:
        """True if exactly this contract is in its place. NotDeployed if something else is."""
        number, code = await self._node.batch(
            [("eth_chainId", ()), ("eth_getCode", (self._contract.address, LATEST))]
        )
        if quantity(number) != self._chain.chain_id:
            raise NotDeployed(
                f"{self._chain.name}: the node serves chain {quantity(number)}, "
                f"not {self._chain.chain_id}"
            )
        found = data(code)
        if found and keccak(found) != keccak(self._contract.runtime):
            raise NotDeployed(
                f"{self._chain.name}: the code at {self._contract.address} is not Florin's"
            )
        return bool(found)

    async def has_deployer(self) -> bool:
        """True if the common deployer is on the chain. NotDeployed if it is something else."""
        code = data(await self._node.ask("eth_getCode", DEPLOYER, LATEST))
        if code not in {b"", DEPLOYER_CODE}:
            raise NotDeployed(f"{self._chain.name}: the code at {DEPLOYER} is not the deployer's")
        return bool(code)

    async def funding(self) -> Step | None:
        """What gives the deployer's maker the coin that it needs; None if it has it."""
        if self._chain.fee_token is not None:
            raise NotDeployed(
                f"{self._chain.name}: there is no deployer at {DEPLOYER}, and no coin to make it "
                "with"
            )
        held = quantity(await self._node.ask("eth_getBalance", DEPLOYER_PAYER, LATEST))
        missing = max(0, DEPLOYER_WEI - held)
        return await self._affordable(DEPLOYER_PAYER, b"", missing) if missing else None

    async def making(self) -> Step:
        """What makes the contract. NotDeployed if the payer cannot afford it."""
        return await self._affordable(DEPLOYER, SALT + self._contract.init_code, 0)

    async def put_deployer(self) -> str:
        """Sends the transaction that makes the deployer; its maker must have the coin."""
        tx_hash = "0x" + keccak(DEPLOYER_TRANSACTION).hex()
        try:
            return await self._mined(Signed(DEPLOYER_TRANSACTION, tx_hash))
        except NotDeployed as refusal:
            raise NotDeployed(
                f"{refusal}. The deployer's own transaction bears no chain id, which some nodes do "
                f"not take: ask whoever runs the chain for the deployer at {DEPLOYER}"
            ) from refusal


def coins(wei: int) -> str:
    """An amount of what gas is paid with, for people: six digits behind the point, rounded up."""
    millionths = -(-wei // 10**12)
    return f"{millionths // 10**6}.{millionths % 10**6:06d}"
