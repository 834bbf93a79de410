"""Plain transfers out of the treasury, signed by its own key.

Tokens are moved by their `transfer`, whether it returns something or not; coin is just sent. What
would fail is not sent: the dry run and the balances are looked at first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from florin_server.chains.evm import abi
from florin_server.domain.caip import parse_asset
from florin_server.domain.settlement.chain_txs import ChainTx
from florin_server.rails.connection.jsonrpc import Call, RpcError
from florin_server.rails.evm.gas_money import (
    FEE_MANAGER,
    ask_choice,
    ask_held,
    choice_problem,
    cost_of,
    held_of,
    unit_of,
)
from florin_server.rails.evm.paying.terms import bare
from florin_server.rails.evm.reading.node import (
    LATEST,
    FinalityRule,
    Node,
    address_text,
    call_to,
    data,
    hash_text,
    quantity,
    record,
    records,
    uint,
)
from florin_server.rails.evm.reading.reverts import said
from florin_server.rails.evm.sending.fees import current_fees, raised
from florin_server.rails.evm.sending.gas_shares import TODAY, GasShares
from florin_server.rails.evm.sending.past_transactions import TRANSFER, find_taker
from florin_server.rails.evm.sending.transactions import Signer, coin_of, fees_of
from florin_server.rails.evm.settings import EvmChain
from florin_server.rails.types import Effect, RailUnavailable, Signed, Transfer

TRANSFERRED = abi.topic("Transfer(address,address,uint256)")
BALANCE_OF = abi.selector("balanceOf(address)")


class EvmPayouts:
    """Implements the Payouts protocol for one chain and key."""

    def __init__(
        self,
        node: Node,
        chain: EvmChain,
        signer: Signer,
        finality: FinalityRule,
        shares: GasShares = TODAY,
    ) -> None:
        self._shares = shares
        self._node = node
        self._finality = finality
        self._chain = chain
        self._signer = signer
        self._coin = chain.coin_asset

    @property
    def sender(self) -> str:
        """Address of the treasury's key, lower-case."""
        return self._signer.address

    @property
    def gas_payer(self) -> str:
        """The treasury pays for its own transactions."""
        return self._signer.address

    @property
    def problem(self) -> str:
        """Why nothing can be paid out at all; empty if it can."""
        treasury = bare(self._chain.treasury_account)
        if treasury == self._signer.address:
            return ""
        return f"the treasury's key is of {self._signer.address}, not of {treasury}"

    async def obstacle(self, transfer: Transfer, ahead: Sequence[Transfer]) -> str | None:
        """Why a transfer would fail if it were sent now; None if it would not."""
        fees = await current_fees(self._node, self._chain)
        call, token = self._call(transfer), self._token(transfer)
        treasury = self._signer.address
        if self._chain.fee_token is not None and (fault := await self._fee_fault(token)):
            return fault
        questions: list[Call] = [
            ask_held(self._chain, treasury),
            ("eth_call", (call, LATEST)),
            ("eth_estimateGas", (call, LATEST)),
        ]
        if token is not None:
            questions.append(call_to(token, BALANCE_OF + abi.address(treasury)))
        purse, tried, gas, *held = await self._node.batch(questions)
        same = [one.value for one in ahead if one.asset == transfer.asset]
        if held and (short := _short(uint(held[0]), transfer.value + sum(same))):
            return f"the treasury {treasury} lacks {short} minor units of {transfer.asset}"
        # what goes out in the very asset that gas is paid with
        native = [one.value for one in (*ahead, transfer) if one.asset == self._chain.native_asset]
        needed = sum(native) * unit_of(self._chain)
        if short := _short(held_of(self._chain, purse), needed):
            return f"the treasury {treasury} lacks {short} wei"
        for answer in (tried, gas):
            if isinstance(answer, RpcError) and answer.is_revert:
                return "the transfer would fail" + (f": {words}" if (words := said(answer)) else "")
        if token is not None and not agreed(data(tried)):
            return "the token refuses the transfer"
        most = self._shares.payout_max
        if (limit := _limit(quantity(gas))) > most:
            return f"the transfer would take {limit} gas, more than the {most} that are paid"
        # each of those ahead may cost as much
        needed += (len(ahead) + 1) * limit * fees.max_fee
        if short := _short(held_of(self._chain, purse), needed):
            units = (
                "wei"
                if self._chain.fee_token is None
                else f"minor units of {self._chain.native_asset}"
            )
            return f"the treasury {treasury} lacks {cost_of(self._chain, short)} {units} for gas"
        return None

    async def sign(self, nonce: int, transfer: Transfer) -> Signed:
        """Signs the one transaction that makes a transfer."""
        token = self._token(transfer)
        gas = quantity(await self._node.ask("eth_estimateGas", self._call(transfer), LATEST))
        return self._signer.sign_call(
            chain_id=self._chain.chain_id,
            nonce=nonce,
            fees=await current_fees(self._node, self._chain),
            gas=min(_limit(gas), self._shares.payout_max),
            to=bare(transfer.account) if token is None else token,
            data=b"" if token is None else _transfer(transfer),
            value=transfer.value if token is None else 0,
        )

    async def fill(self, nonce: int) -> Signed:
        """Signs a transaction that does nothing but use a nonce."""
        own = self._signer.address
        gas = quantity(await self._node.ask("eth_estimateGas", {"from": own, "to": own}, LATEST))
        return self._signer.sign_call(
            chain_id=self._chain.chain_id,
            nonce=nonce,
            fees=await current_fees(self._node, self._chain),
            gas=min(gas, self._shares.payout_max),
            to=own,
            data=b"",
        )

    async def bump(self, tx: ChainTx) -> Signed:
        """Signs the newest variant again for a higher fee; RailUnavailable above the limits."""
        raw = tx.variants[-1].raw
        asked = await current_fees(self._node, self._chain)
        return self._signer.sign_again(raw, raised(fees_of(raw), asked, self._chain))

    async def effect(self, tx: ChainTx, tx_hash: str, transfer: Transfer) -> Effect:
        """What a final transaction moved, as its receipt tells."""
        receipt = record(await self._node.ask("eth_getTransactionReceipt", tx_hash))
        if receipt is None:
            raise RailUnavailable(f"{self._chain.name}: the receipt of a payout is missing")
        if quantity(receipt.get("status")) != 1:
            return Effect.NOTHING
        token = self._token(transfer)
        if token is None:
            # the transaction itself says how much, and those bytes are ours
            sent = [coin_of(one.raw) for one in tx.variants if one.hash == tx_hash]
            wanted = (bare(transfer.account), transfer.value)
            return Effect.EXACT if sent == [wanted] else Effect.OTHER
        moved = [
            (hash_text(one["topics"][2]), data(one.get("data")))
            for one in records(receipt.get("logs"))
            if _leaves(one, token, self._signer.address) and not self._is_fee(one)
        ]
        promised = (_word(bare(transfer.account)), abi.number(transfer.value))
        return Effect.EXACT if moved == [promised] else Effect.OTHER

    async def cannot_be_mined(self, tx: ChainTx, lapses_at: int | None) -> bool:  # noqa: ARG002
        """True if another transaction that has its nonce is final: that very one was seen.

        A receipt that a node does not have proves nothing, and a second transfer would be a gift.
        """
        final = await self._node.final_block(self._finality)
        if final is None:
            return False
        taker = await find_taker(self._node, tx.sender, tx.nonce, final)
        return taker is not None and hash_text(taker.get("hash")) not in tx.hashes

    async def _fee_fault(self, token: str | None) -> str | None:
        """Return why the treasury cannot pay fees as the settings say, None if it can."""
        if token is None:
            return "the chain has no coin to send"
        treasury = self._signer.address
        (chosen,) = await self._node.batch([ask_choice(treasury)])
        fault = choice_problem(self._chain, treasury, chosen)
        return fault and f"the treasury {fault}"

    def _is_fee(self, log: Mapping[str, Any]) -> bool:
        """Return whether a transfer out of the treasury is the transaction's own fee."""
        is_charged = address_text(log.get("address")) == self._chain.fee_token
        return is_charged and hash_text(log["topics"][2]) == _word(FEE_MANAGER)

    def _token(self, transfer: Transfer) -> str | None:
        """The token's address; None for the chain's own coin."""
        return None if transfer.asset == self._coin else parse_asset(transfer.asset).reference

    def _call(self, transfer: Transfer) -> dict[str, str]:
        token = self._token(transfer)
        sender = {"from": self._signer.address}
        if token is None:
            return {**sender, "to": bare(transfer.account), "value": hex(transfer.value)}
        return {**sender, "to": token, "data": abi.data_of(_transfer(transfer))}


def _transfer(transfer: Transfer) -> bytes:
    return TRANSFER + abi.address(bare(transfer.account)) + abi.number(transfer.value)


def _limit(estimated: int) -> int:
    """Gas for what was estimated; the state may be another one when it is mined."""
    return estimated + estimated // 4


def _short(held: int, needed: int) -> int:
    return max(0, needed - held)


def agreed(returned: bytes) -> bool:
    """True unless a token said no: old ones say nothing at all."""
    return not returned or int.from_bytes(returned, "big") == 1


def _leaves(log: Mapping[str, Any], token: str, treasury: str) -> bool:
    """True if a log tells that a token left the treasury."""
    topics = log.get("topics")
    return (
        isinstance(topics, list)
        and len(topics) == 3
        and hash_text(topics[0]) == TRANSFERRED
        and hash_text(topics[1]) == _word(treasury)
        and address_text(log.get("address")) == token
    )


def _word(address: str) -> str:
    return abi.data_of(abi.address(address))
