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
from florin_server.rails.evm.paying.terms import bare
from florin_server.rails.evm.reading.node import (
    LATEST,
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
from florin_server.rails.evm.sending.transactions import Signer, coin_of, fees_of
from florin_server.rails.evm.settings import EvmChain
from florin_server.rails.types import Effect, RailUnavailable, Signed, Transfer

TRANSFER = abi.selector("transfer(address,uint256)")
TRANSFERRED = abi.topic("Transfer(address,address,uint256)")
BALANCE_OF = abi.selector("balanceOf(address)")
# a receiver with code runs at the treasury's cost; the dearest honest ones take a third of this
GAS_MAX = 300_000
_PLAIN_GAS = 21_000


class EvmPayouts:
    """Implements the Payouts protocol for one chain and key."""

    def __init__(self, node: Node, chain: EvmChain, signer: Signer) -> None:
        self._node = node
        self._chain = chain
        self._signer = signer
        self._coin = f"{chain.caip2}/slip44:{chain.native_slip44}"

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
        questions: list[Call] = [
            ("eth_getBalance", (treasury, LATEST)),
            ("eth_call", (call, LATEST)),
            ("eth_estimateGas", (call, LATEST)),
        ]
        if token is not None:
            questions.append(call_to(token, BALANCE_OF + abi.address(treasury)))
        coin, tried, gas, *held = await self._node.batch(questions)
        same = [one.value for one in ahead if one.asset == transfer.asset]
        if held and (short := _short(uint(held[0]), transfer.value + sum(same))):
            return f"the treasury {treasury} lacks {short} minor units of {transfer.asset}"
        coin_ahead = sum(one.value for one in ahead if one.asset == self._coin)
        needed = coin_ahead + (transfer.value if token is None else 0)
        if short := _short(quantity(coin), needed):
            return f"the treasury {treasury} lacks {short} wei"
        for answer in (tried, gas):
            if isinstance(answer, RpcError) and answer.is_revert:
                return "the transfer would fail" + (f": {words}" if (words := said(answer)) else "")
        if token is not None and not agreed(data(tried)):
            return "the token refuses the transfer"
        if (limit := _limit(quantity(gas))) > GAS_MAX:
            return f"the transfer would take {limit} gas, more than the {GAS_MAX} that are paid"
        # each of those ahead may cost as much
        if short := _short(quantity(coin), needed + (len(ahead) + 1) * limit * fees.max_fee):
            return f"the treasury {treasury} lacks {short} wei for gas"
        return None

    async def sign(self, nonce: int, transfer: Transfer) -> Signed:
        """Signs the one transaction that makes a transfer."""
        token = self._token(transfer)
        gas = quantity(await self._node.ask("eth_estimateGas", self._call(transfer), LATEST))
        return self._signer.sign_call(
            chain_id=self._chain.chain_id,
            nonce=nonce,
            fees=await current_fees(self._node, self._chain),
            gas=min(_limit(gas), GAS_MAX),
            to=bare(transfer.account) if token is None else token,
            data=b"" if token is None else _transfer(transfer),
            value=transfer.value if token is None else 0,
        )

    async def fill(self, nonce: int) -> Signed:
        """Signs a transaction that does nothing but use a nonce."""
        return self._signer.sign_call(
            chain_id=self._chain.chain_id,
            nonce=nonce,
            fees=await current_fees(self._node, self._chain),
            gas=_PLAIN_GAS,
            to=self._signer.address,
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
            if _leaves(one, token, self._signer.address)
        ]
        promised = (_word(bare(transfer.account)), abi.number(transfer.value))
        return Effect.EXACT if moved == [promised] else Effect.OTHER

    async def cannot_be_mined(self, tx: ChainTx, lapses_at: int | None) -> bool:  # noqa: ARG002
        """True if another transaction that has its nonce is final: that very one was seen.

        A receipt that a node does not have proves nothing, and a second transfer would be a gift.
        """
        final = await self._node.final_block(self._chain.confirmations)
        if final is None or await self._count(tx.sender, final) <= tx.nonce:
            return False
        block = await self._node.ask(
            "eth_getBlockByNumber", hex(await self._used_in(tx, final)), True
        )
        found = record(block)
        taker = [
            hash_text(one.get("hash"))
            for one in records(found.get("transactions") if found else None)
            if address_text(one.get("from")) == tx.sender and quantity(one.get("nonce")) == tx.nonce
        ]
        return bool(taker) and taker[0] not in tx.hashes

    async def _used_in(self, tx: ChainTx, final: int) -> int:
        """The block in which a nonce was used; it is looked for from the newest final one back."""
        step, last = 1, final
        while (first := max(0, final - step)) and await self._count(tx.sender, first) > tx.nonce:
            step, last = 2 * step, first
        while last - first > 1:
            middle = (first + last) // 2
            if await self._count(tx.sender, middle) > tx.nonce:
                last = middle
            else:
                first = middle
        return last

    async def _count(self, sender: str, block: int) -> int:
        """How many transactions an address has sent up to a block."""
        return quantity(await self._node.ask("eth_getTransactionCount", sender, hex(block)))

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
