"""Somebody who sees what the relayer sends, and sends some of it first, at times to themselves."""

from __future__ import annotations

import hashlib
import random
from dataclasses import fields, replace
from typing import Any

import eth_abi
import rlp
from florin_server.devnet.evm import DEVNET
from florin_server.rails.evm import settler
from florin_server.rails.evm.fees import Fees
from florin_server.rails.evm.settler import Pay
from florin_server.rails.evm.transactions import Signer
from florin_server.rails.jsonrpc import JsonRpc, RpcError

THIEF = "0x" + "7e" * 20
KEY = hashlib.sha256(b"florin chaos stranger").digest()
_PAYS = "(address,address,uint256,uint256,uint256,address,address,uint256,bytes32,uint256,bytes)[]"
_GWEI = 10**9


class Stranger:
    """Front-runs settlements with a key and coin of its own."""

    def __init__(self, rpc: JsonRpc, seed: str) -> None:
        self._rpc = rpc
        self._chance = random.Random(seed)
        self._signer = Signer(KEY)

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
            some = [[replace(one, dest=THIEF) for one in pays] for pays in some]
        nonce = int(await self._rpc.call("eth_getTransactionCount", self.address, "pending"), 16)
        sent = self._signer.sign_call(
            chain_id=DEVNET.chain_id,
            nonce=nonce,
            fees=Fees(max_fee=200 * _GWEI, tip=5 * _GWEI),
            gas=400_000 * sum(map(len, some)) + 100_000,
            to=DEVNET.settler,
            data=settler.settle(*some),
        )
        try:
            await self._rpc.call("eth_sendRawTransaction", "0x" + sent.raw.hex())
        except RpcError:
            # its pool is full, or its coin is gone: nobody depends on it
            return


def pays_of(data: bytes) -> tuple[list[Pay], list[Pay]] | None:
    """The items of a settlement; None if it is none."""
    called, arguments = data[:4], data[4:]
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
