"""Plain transfers out of the treasury, signed by its own key.

Tokens are moved by their `transfer`, whether it returns a value or not; native coin is sent
directly. A dry run and the balances are checked first, so that a transfer that would fail is not
sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from florin_server.domain.caip import parse_asset
from florin_server.domain.chains.evm import abi
from florin_server.domain.settlement.chain_txs import ChainTx
from florin_server.rails.connection.jsonrpc import RpcCall, RpcError
from florin_server.rails.evm.gas_money import (
    FEE_MANAGER,
    build_balance_call,
    build_fee_token_call,
    find_fee_token_problem,
    get_unit_wei,
    parse_balance,
    to_native_units,
)
from florin_server.rails.evm.paying.terms import to_address
from florin_server.rails.evm.reading.node import (
    LATEST,
    EvmNode,
    FinalityRule,
    build_call,
    parse_address,
    parse_data,
    parse_hash,
    parse_object,
    parse_objects,
    parse_quantity,
    parse_uint,
)
from florin_server.rails.evm.reading.reverts import format_revert
from florin_server.rails.evm.sending.fees import raise_fees, read_current_fees
from florin_server.rails.evm.sending.gas_shares import DEFAULT_SHARES, GasShares
from florin_server.rails.evm.sending.past_transactions import TRANSFER, find_transaction
from florin_server.rails.evm.sending.transactions import EvmSigner, parse_coin_transfer, parse_fees
from florin_server.rails.evm.settings import EvmChainSettings
from florin_server.rails.types import (
    RailUnavailable,
    SignedTransaction,
    TransferEffect,
    TreasuryTransfer,
)

TRANSFER_TOPIC = abi.encode_topic("Transfer(address,address,uint256)")
BALANCE_OF = abi.encode_selector("balanceOf(address)")


class EvmPayouts:
    """Implement the TreasuryPayouts protocol for one chain and key."""

    def __init__(
        self,
        node: EvmNode,
        chain: EvmChainSettings,
        signer: EvmSigner,
        finality: FinalityRule,
        shares: GasShares = DEFAULT_SHARES,
    ) -> None:
        self._shares = shares
        self._node = node
        self._finality = finality
        self._chain = chain
        self._signer = signer
        self._coin = chain.coin_asset

    @property
    def sender(self) -> str:
        """Return the address of the treasury's key, in lower case."""
        return self._signer.address

    @property
    def gas_payer(self) -> str:
        """Return the treasury's address: it pays for its own transactions."""
        return self._signer.address

    @property
    def problem(self) -> str:
        """Return why no payout is possible at all; empty if payouts are possible."""
        treasury = to_address(self._chain.treasury_account)
        if treasury == self._signer.address:
            return ""
        return f"the treasury's key belongs to {self._signer.address}, not to {treasury}"

    async def check_transfer(
        self, transfer: TreasuryTransfer, pending_transfers: Sequence[TreasuryTransfer]
    ) -> str | None:
        """Return why a transfer would fail if it were sent now; None if it would succeed."""
        fees = await read_current_fees(self._node, self._chain)
        call, token = self._build_call(transfer), self._find_token(transfer)
        treasury = self._signer.address
        if self._chain.fee_token is not None and (fault := await self._find_fee_problem(token)):
            return fault
        questions: list[RpcCall] = [
            build_balance_call(self._chain, treasury),
            ("eth_call", (call, LATEST)),
            ("eth_estimateGas", (call, LATEST)),
        ]
        if token is not None:
            questions.append(build_call(token, BALANCE_OF + abi.encode_address(treasury)))
        coin_balance, tried, gas, *held = await self._node.batch(questions)
        same = [
            each_transfer.value
            for each_transfer in pending_transfers
            if each_transfer.asset == transfer.asset
        ]
        if held and (short := _compute_shortfall(parse_uint(held[0]), transfer.value + sum(same))):
            return f"the treasury {treasury} lacks {short} minor units of {transfer.asset}"
        # transfers in the asset that also pays for gas
        native = [
            each_transfer.value
            for each_transfer in (*pending_transfers, transfer)
            if each_transfer.asset == self._chain.native_asset
        ]
        needed = sum(native) * get_unit_wei(self._chain)
        if short := _compute_shortfall(parse_balance(self._chain, coin_balance), needed):
            return f"the treasury {treasury} lacks {short} wei"
        for answer in (tried, gas):
            if isinstance(answer, RpcError) and answer.is_revert:
                return "the transfer would fail" + (
                    f": {revert_reason}" if (revert_reason := format_revert(answer)) else ""
                )
        if token is not None and not is_transfer_accepted(parse_data(tried)):
            return "the token refuses the transfer"
        most = self._shares.payout_max
        if (limit := _compute_gas_limit(parse_quantity(gas))) > most:
            return f"the transfer would need {limit} gas, more than the limit of {most}"
        # each transfer ahead may cost as much
        needed += (len(pending_transfers) + 1) * limit * fees.max_fee
        if short := _compute_shortfall(parse_balance(self._chain, coin_balance), needed):
            units = (
                "wei"
                if self._chain.fee_token is None
                else f"minor units of {self._chain.native_asset}"
            )
            lacking = to_native_units(self._chain, short)
            return f"the treasury {treasury} lacks {lacking} {units} for gas"
        return None

    async def sign(self, nonce: int, transfer: TreasuryTransfer) -> SignedTransaction:
        """Sign the single transaction that makes a transfer."""
        token = self._find_token(transfer)
        gas = parse_quantity(
            await self._node.call("eth_estimateGas", self._build_call(transfer), LATEST)
        )
        return self._signer.sign_call(
            chain_id=self._chain.chain_id,
            nonce=nonce,
            fees=await read_current_fees(self._node, self._chain),
            gas=min(_compute_gas_limit(gas), self._shares.payout_max),
            to=to_address(transfer.account) if token is None else token,
            data=b"" if token is None else _encode_transfer(transfer),
            value=transfer.value if token is None else 0,
        )

    async def sign_noop(self, nonce: int) -> SignedTransaction:
        """Sign a transaction that only uses a nonce."""
        own = self._signer.address
        gas = parse_quantity(
            await self._node.call("eth_estimateGas", {"from": own, "to": own}, LATEST)
        )
        return self._signer.sign_call(
            chain_id=self._chain.chain_id,
            nonce=nonce,
            fees=await read_current_fees(self._node, self._chain),
            gas=min(gas, self._shares.payout_max),
            to=own,
            data=b"",
        )

    async def bump_fee(self, tx: ChainTx) -> SignedTransaction:
        """Sign the newest variant again with a higher fee; RailUnavailable above the limits."""
        raw = tx.variants[-1].raw
        fees = await read_current_fees(self._node, self._chain)
        return self._signer.sign_with_fees(raw, raise_fees(parse_fees(raw), fees, self._chain))

    async def read_effect(
        self, tx: ChainTx, tx_hash: str, transfer: TreasuryTransfer
    ) -> TransferEffect:
        """Return what a final transaction moved, according to its receipt."""
        receipt = parse_object(await self._node.call("eth_getTransactionReceipt", tx_hash))
        if receipt is None:
            raise RailUnavailable(f"{self._chain.name}: the receipt of a payout is missing")
        if parse_quantity(receipt.get("status")) != 1:
            return TransferEffect.NOTHING
        token = self._find_token(transfer)
        if token is None:
            # the transaction itself contains the amount, and its bytes are ours
            sent = [
                parse_coin_transfer(variant.raw)
                for variant in tx.variants
                if variant.hash == tx_hash
            ]
            expected_transfer = (to_address(transfer.account), transfer.value)
            return TransferEffect.EXACT if sent == [expected_transfer] else TransferEffect.OTHER
        moved = [
            (parse_hash(log["topics"][2]), parse_data(log.get("data")))
            for log in parse_objects(receipt.get("logs"))
            if _is_outgoing_transfer(log, token, self._signer.address) and not self._is_fee(log)
        ]
        promised = (_to_word(to_address(transfer.account)), abi.encode_uint256(transfer.value))
        return TransferEffect.EXACT if moved == [promised] else TransferEffect.OTHER

    async def cannot_be_mined(self, tx: ChainTx, lapses_at: int | None) -> bool:  # noqa: ARG002
        """Return True if another transaction with its nonce is final, and was itself seen.

        A receipt that a node does not have proves nothing, and a second transfer would be lost
        money.
        """
        final = await self._node.find_final_block(self._finality)
        if final is None:
            return False
        taker = await find_transaction(self._node, tx.sender, tx.nonce, final)
        return taker is not None and parse_hash(taker.get("hash")) not in tx.hashes

    async def _find_fee_problem(self, token: str | None) -> str | None:
        """Return why the treasury cannot pay fees as configured; None if it can."""
        if token is None:
            return "the chain has no native coin to send"
        treasury = self._signer.address
        (chosen,) = await self._node.batch([build_fee_token_call(treasury)])
        fault = find_fee_token_problem(self._chain, treasury, chosen)
        return fault and f"the treasury {fault}"

    def _is_fee(self, log: Mapping[str, Any]) -> bool:
        """Return whether a transfer out of the treasury is the transaction's own fee."""
        is_charged = parse_address(log.get("address")) == self._chain.fee_token
        return is_charged and parse_hash(log["topics"][2]) == _to_word(FEE_MANAGER)

    def _find_token(self, transfer: TreasuryTransfer) -> str | None:
        """Return the token's address; None for the native coin."""
        return None if transfer.asset == self._coin else parse_asset(transfer.asset).reference

    def _build_call(self, transfer: TreasuryTransfer) -> dict[str, str]:
        token = self._find_token(transfer)
        sender = {"from": self._signer.address}
        if token is None:
            return {**sender, "to": to_address(transfer.account), "value": hex(transfer.value)}
        return {**sender, "to": token, "data": abi.to_hex(_encode_transfer(transfer))}


def _encode_transfer(transfer: TreasuryTransfer) -> bytes:
    return (
        TRANSFER
        + abi.encode_address(to_address(transfer.account))
        + abi.encode_uint256(transfer.value)
    )


def _compute_gas_limit(estimated: int) -> int:
    """Return the gas limit for an estimate, as the state may differ when it is mined."""
    return estimated + estimated // 4


def _compute_shortfall(balance: int, required: int) -> int:
    return max(0, required - balance)


def is_transfer_accepted(returned: bytes) -> bool:
    """Return True unless a token refused: old tokens return nothing at all."""
    return not returned or int.from_bytes(returned, "big") == 1


def _is_outgoing_transfer(log: Mapping[str, Any], token: str, treasury: str) -> bool:
    """Return True if a log records that a token left the treasury."""
    topics = log.get("topics")
    return (
        isinstance(topics, list)
        and len(topics) == 3
        and parse_hash(topics[0]) == TRANSFER_TOPIC
        and parse_hash(topics[1]) == _to_word(treasury)
        and parse_address(log.get("address")) == token
    )


def _to_word(address: str) -> str:
    return abi.to_hex(abi.encode_address(address))
