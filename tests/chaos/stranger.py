"""Somebody who sees what the relayer sends, and is faster.

Some of it they send first, at times to themselves. Accounts that burn gas they tell when it is
time to.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from dataclasses import fields, replace
from typing import Any

import eth_abi
import rlp
from florin_server.devnet.evm import DEVNET
from florin_server.rails.connection.jsonrpc import JsonRpc, RpcError
from florin_server.rails.evm import settler
from florin_server.rails.evm.paying.erc6492 import OPEN
from florin_server.rails.evm.sending.fees import Fees
from florin_server.rails.evm.sending.transactions import Signer
from florin_server.rails.evm.settler import Pay

THIEF = "0x" + "7e" * 20
KEY = hashlib.sha256(b"florin chaos stranger").digest()
ADDRESS = Signer(KEY).address.lower()
_PAYS = "(address,address,uint256,uint256,uint256,address,address,uint256,bytes32,uint256,bytes)[]"
_GWEI = 10**9
# of the machine, for which an account burns: two blocks
_BURN_S = 0.2


class Stranger:
    """Front-runs settlements with a key and coin of its own."""

    def __init__(self, rpc: JsonRpc, seed: str) -> None:
        self._rpc = rpc
        self._chance = random.Random(seed)
        self._signer = Signer(KEY)
        self._busy = asyncio.Lock()
        # accounts that burn while somebody tells them to
        self.burners: frozenset[str] = frozenset()
        self._calming: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        return self._signer.address

    async def take(self, raw: bytes) -> None:
        """Submits some of a transaction's payments before it is sent."""
        lists = pays_of(rlp.decode(raw[1:])[7])
        if lists is None:
            return
        some = [[one for one in pays if self._chance.random() < 0.6] for pays in lists]
        if not any(some):
            return
        if self._chance.random() < 0.25:
            # an account that takes any signature can be robbed by anybody, with us or without
            some = [
                [replace(one, dest=THIEF) for one in pays if one.payer not in self.burners]
                for pays in some
            ]
        gas = 400_000 * sum(map(len, some)) + 100_000
        await self._send(DEVNET.settler, settler.settle(*some), gas)

    async def burn(self, raw: bytes) -> None:
        """Lets the accounts burn whose payments a transaction brings, and be good again after."""
        lists = pays_of(rlp.decode(raw[1:])[7])
        if lists is None:
            return
        burning = [one.payer for pays in lists for one in pays if one.payer in self.burners]
        for payer in burning:
            await self._send(payer, b"", 80_000, value=1)
        if burning:
            task = asyncio.create_task(self._calm(burning))
            self._calming.add(task)
            task.add_done_callback(self._calming.discard)

    async def _calm(self, payers: list[str]) -> None:
        await asyncio.sleep(_BURN_S)
        for payer in payers:
            await self._send(payer, b"", 80_000)

    async def _send(self, to: str, data: bytes, gas: int, value: int = 0) -> None:
        async with self._busy:
            count = await self._rpc.call("eth_getTransactionCount", self.address, "pending")
            sent = self._signer.sign_call(
                chain_id=DEVNET.chain_id,
                nonce=int(count, 16),
                fees=Fees(max_fee=200 * _GWEI, tip=20 * _GWEI),
                gas=gas,
                to=to,
                data=data,
                value=value,
            )
            try:
                await self._rpc.call("eth_sendRawTransaction", "0x" + sent.raw.hex())
            except RpcError:
                # its pool is full, or its coin is gone: nobody depends on it
                return


def pays_of(data: bytes) -> tuple[list[Pay], list[Pay]] | None:
    """The items of a settlement; None if it is none."""
    called, arguments = data[:4], data[4:]
    if called == OPEN:
        # accounts are created first; the settlement comes last
        at = int.from_bytes(arguments[64:96], "big")
        size = int.from_bytes(arguments[at : at + 32], "big")
        return pays_of(arguments[at + 32 : at + 32 + size])
    if called == settler.SETTLE_3009:
        return _pays(eth_abi.decode([_PAYS], arguments)[0]), []
    if called == settler.SETTLE_PERMIT2:
        return [], _pays(eth_abi.decode([_PAYS], arguments)[0])
    if called == settler.SETTLE:
        first, second = eth_abi.decode([_PAYS, _PAYS], arguments)
        return _pays(first), _pays(second)
    return None


def _pays(decoded: Any) -> list[Pay]:
    names = [field.name for field in fields(Pay)]
    return [Pay(**dict(zip(names, one, strict=True))) for one in decoded]
