"""Deployment of a contract at the same address on every chain: CREATE2 by the common deployer.

No key of the deployer exists: one transaction, whose signature was chosen and not computed, creates
it at the same address everywhere. Most chains have it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import rlp
from eth_hash.auto import keccak

from florin_server.base.clock import Clock
from florin_server.domain.chains.evm.abi import to_hex
from florin_server.rails.connection.jsonrpc import RpcError
from florin_server.rails.evm.gas_money import build_balance_call, get_gas_money_name, parse_balance
from florin_server.rails.evm.known_contracts import DEPLOYER
from florin_server.rails.evm.reading.node import (
    LATEST,
    EvmNode,
    build_call,
    parse_data,
    parse_object,
    parse_quantity,
    parse_returned,
)
from florin_server.rails.evm.sending.fees import TransactionFees, read_current_fees
from florin_server.rails.evm.sending.transactions import EvmSigner
from florin_server.rails.evm.settings import GWEI, EvmChainSettings
from florin_server.rails.types import RailUnavailable, SignedTransaction

DEPLOYER_CODE: Final = bytes.fromhex(
    "7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffe036016000816020823780358282"
    "34f58015156039578182fd5b8082525050506014600cf3"
)
DEPLOYER_PAYER: Final = "0x3fab184622dc19b6109349b94811493bf2a45362"
_DEPLOYER_GAS: Final = 100_000
_DEPLOYER_GAS_PRICE: Final = 100 * GWEI
DEPLOYER_WEI: Final = _DEPLOYER_GAS * _DEPLOYER_GAS_PRICE
# without a chain id, so that it is valid on every chain; r and s were chosen, not computed
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

# code that writes to transient storage, as Florin's contracts do
TRANSIENT_CODE: Final = "0x600160005d00"
_EMPTY_CODE: Final = "0x00"

# identifies Florin's contracts at the deployer; another salt gives other addresses
SALT: Final[bytes] = keccak(b"florin settlement")

_GAS_MAX: Final = 2**24  # the protocol's own limit for a transaction
# a rollup's price of data may change between estimate and block
_GAS_MARGIN: Final = 4
_WAIT_S: Final = 300.0
_POLL_S: Final = 0.5


class DeploymentFailed(Exception):  # noqa: N818  (a decision for the operator, not a mistake)
    """The contract was not deployed; the text says why."""


@dataclass(frozen=True, slots=True)
class DeployableContract:
    """A contract without constructor arguments: its creation code and its deployed code."""

    init_code: bytes
    runtime: bytes

    @property
    def address(self) -> str:
        """Return the lower-case address to which the deployer deploys it on every chain."""
        seed = b"\xff" + bytes.fromhex(DEPLOYER[2:]) + SALT + keccak(self.init_code)
        return "0x" + keccak(seed)[12:].hex()


@dataclass(frozen=True, slots=True)
class SetupStep:
    """A missing transaction; costs are the most that it can take, in wei."""

    to: str
    data: bytes
    value: int
    gas: int
    fees: TransactionFees
    nonce: int

    @property
    def cost(self) -> int:
        """Return the gas at the highest price, plus the value sent along, in wei."""
        return self.gas * self.fees.max_fee + self.value


class SetupStepSender:
    """Send single transactions on one chain with a key that has no other user meanwhile."""

    def __init__(
        self, node: EvmNode, chain: EvmChainSettings, signer: EvmSigner, clock: Clock
    ) -> None:
        self._node = node
        self._chain = chain
        self._signer = signer
        self._clock = clock

    async def perform_step(self, step: SetupStep) -> str:
        """Send a step; return its hash once it succeeded."""
        signed = self._signer.sign_call(
            chain_id=self._chain.chain_id,
            nonce=step.nonce,
            fees=step.fees,
            gas=step.gas,
            to=step.to,
            data=step.data,
            value=step.value,
        )
        return await self._wait_until_mined(signed)

    async def _build_affordable_step(self, to: str, payload: bytes, value: int) -> SetupStep:
        sender = self._signer.address
        fees = await read_current_fees(self._node, self._chain)
        balance, mined, pending = await self._node.batch(
            [
                build_balance_call(self._chain, sender),
                ("eth_getTransactionCount", (sender, LATEST)),
                ("eth_getTransactionCount", (sender, "pending")),
            ]
        )
        held, money = parse_balance(self._chain, balance), get_gas_money_name(self._chain)
        nonce = parse_quantity(mined)
        if parse_quantity(pending) > nonce:
            raise DeploymentFailed(
                f"{self._chain.name}: a transaction of {sender} is still pending; try again "
                "when it is in a block"
            )
        call = {"from": sender, "to": to, "data": to_hex(payload), "value": hex(value)}
        try:
            estimate = parse_quantity(await self._node.rpc.call("eth_estimateGas", call))
        except RpcError as refusal:
            if held == 0:
                raise DeploymentFailed(
                    f"{self._chain.name}: {sender} has no balance of {money}"
                ) from None
            raise DeploymentFailed(f"{self._chain.name}: {refusal}") from refusal
        # some chains have small blocks, into which the margin does not fit
        most = min(self._chain.gas_max, _GAS_MAX)
        gas = max(estimate, min(estimate + estimate // _GAS_MARGIN, most))
        step = SetupStep(to, payload, value, gas, fees, nonce)
        if held < step.cost:
            has = format_coins(held) if held else "no balance"
            raise DeploymentFailed(
                f"{self._chain.name}: {sender} has {has} of {money}, but this can cost "
                f"{format_coins(step.cost)}"
            )
        return step

    async def _wait_until_mined(self, signed: SignedTransaction) -> str:
        try:
            await self._node.rpc.call("eth_sendRawTransaction", to_hex(signed.raw))
        except RpcError as refusal:
            raise DeploymentFailed(f"{self._chain.name}: {refusal}") from refusal
        end = self._clock.steady_us() + int(_WAIT_S * 1_000_000)
        while self._clock.steady_us() < end:
            receipt = parse_object(await self._node.call("eth_getTransactionReceipt", signed.hash))
            if receipt is None:
                await self._clock.sleep(_POLL_S)
            elif parse_quantity(receipt.get("status")) == 1:
                return signed.hash
            else:
                raise DeploymentFailed(f"{self._chain.name}: the transaction {signed.hash} failed")
        raise RailUnavailable(
            f"{self._chain.name}: {signed.hash} is in no block yet; try again when it is in a block"
        )


class ContractDeployment(SetupStepSender):
    """One contract on one chain."""

    def __init__(
        self,
        node: EvmNode,
        chain: EvmChainSettings,
        signer: EvmSigner,
        contract: DeployableContract,
        clock: Clock,
    ) -> None:
        super().__init__(node, chain, signer, clock)
        self._contract = contract

    async def is_deployed(self) -> bool:
        """Return True if this contract is at its address; raise DeploymentFailed for other code."""
        number, code = await self._node.batch(
            [("eth_chainId", ()), ("eth_getCode", (self._contract.address, LATEST))]
        )
        if parse_quantity(number) != self._chain.chain_id:
            raise DeploymentFailed(
                f"{self._chain.name}: the node serves chain {parse_quantity(number)}, "
                f"not {self._chain.chain_id}"
            )
        data = parse_data(code)
        if data and keccak(data) != keccak(self._contract.runtime):
            raise DeploymentFailed(
                f"{self._chain.name}: the code at {self._contract.address} is not Florin's"
            )
        return bool(data)

    async def has_deployer(self) -> bool:
        """Return True if the chain has the common deployer; DeploymentFailed for other code."""
        code = parse_data(await self._node.call("eth_getCode", DEPLOYER, LATEST))
        if code not in {b"", DEPLOYER_CODE}:
            raise DeploymentFailed(
                f"{self._chain.name}: the code at {DEPLOYER} is not the deployer's"
            )
        return bool(code)

    async def find_funding_step(self) -> SetupStep | None:
        """Return the transfer that funds the deployer's creator; None if it has enough coin."""
        if self._chain.fee_token is not None:
            raise DeploymentFailed(
                f"{self._chain.name}: no deployer is at {DEPLOYER}, and the chain has no coin "
                "to create it "
                "with"
            )
        held = parse_quantity(await self._node.call("eth_getBalance", DEPLOYER_PAYER, LATEST))
        missing = max(0, DEPLOYER_WEI - held)
        return await self._build_affordable_step(DEPLOYER_PAYER, b"", missing) if missing else None

    async def require_transient_storage(self) -> None:
        """Raise DeploymentFailed if the chain lacks the instructions that the contract uses."""
        calls = [("eth_call", ({"data": code}, LATEST)) for code in (TRANSIENT_CODE, _EMPTY_CODE)]
        transient, empty = await self._node.batch(calls)
        # nodes name the reason in many ways; some run no code that is not deployed
        if isinstance(transient, RpcError) and not isinstance(empty, RpcError):
            raise DeploymentFailed(
                f"{self._chain.name}: the chain lacks transient storage (EIP-1153, of the Cancun "
                f"upgrade), which Florin's contracts need: {transient}"
            )

    async def require_common_address(self) -> None:
        """Raise DeploymentFailed if the chain would give the contract another address.

        Chains with another virtual machine do so, such as ZKsync Era. The deployer must exist.
        """
        expected = self._contract.address
        trial = build_call(DEPLOYER, SALT + self._contract.init_code)
        (answer,) = await self._node.batch([trial])
        created = parse_returned(answer) or b""
        if created[-20:] != bytes.fromhex(expected[2:]):
            raise DeploymentFailed(
                f"{self._chain.name}: the chain does not create the contract at {expected}, as "
                "chains of Ethereum's virtual machine do: Florin does not support it"
            )

    async def build_deployment_step(self) -> SetupStep:
        """Return the deployment step; raise DeploymentFailed if the payer cannot afford it."""
        return await self._build_affordable_step(DEPLOYER, SALT + self._contract.init_code, 0)

    async def deploy_deployer(self) -> str:
        """Send the transaction that creates the deployer; its creator must have the coin."""
        tx_hash = "0x" + keccak(DEPLOYER_TRANSACTION).hex()
        try:
            return await self._wait_until_mined(SignedTransaction(DEPLOYER_TRANSACTION, tx_hash))
        except DeploymentFailed as refusal:
            raise DeploymentFailed(
                f"{refusal}. The deployer's own transaction has no chain id, which some nodes do "
                f"not accept: ask the chain's operators for the deployer at {DEPLOYER}"
            ) from refusal


def format_coins(wei: int) -> str:
    """Format an amount of gas money for people: six decimals, rounded up."""
    millionths = -(-wei // 10**12)
    return f"{millionths // 10**6}.{millionths % 10**6:06d}"
