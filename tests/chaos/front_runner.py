"""A front-runner that sees the relayer's transactions first, and front-runs them.

It submits some of them first, sometimes for its own benefit. It also signals gas-burning accounts
when to burn.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from dataclasses import fields, replace
from typing import Any

import eth_abi
import rlp
from florin_sandbox.devnet.evm import DEVNET
from florin_server.domain.chains.evm import abi
from florin_server.rails.connection.jsonrpc import JsonRpcClient, RpcError
from florin_server.rails.evm import forwarder, settler
from florin_server.rails.evm.paying.erc6492 import OPEN
from florin_server.rails.evm.sending.fees import TransactionFees
from florin_server.rails.evm.sending.transactions import EvmSigner
from florin_server.rails.evm.settler import PayArguments

THIEF = "0x" + "7e" * 20
KEY = hashlib.sha256(b"florin chaos front-runner").digest()
ADDRESS = EvmSigner(KEY).address.lower()
_PAYS = "(address,address,uint256,uint256,uint256,address,address,uint256,bytes32,uint256,bytes)[]"
_GWEI = 10**9
# calls that do the same for any sender: of the forwarder, and transfers by signature
_COPIED = {
    forwarder.FORWARD,
    forwarder.FORWARD_ONE,
    forwarder.SWEEP,
    forwarder.SWEEP_ONE,
    abi.encode_selector(
        "transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,uint8,bytes32,"
        "bytes32)"
    ),
}
_COPIED_SHARE = 0.6
# machine seconds for which an account burns: two blocks
_BURN_S = 0.2


class FrontRunner:
    """A front-runner of settlements with its own key and coin."""

    def __init__(self, rpc: JsonRpcClient, seed: str) -> None:
        self._rpc = rpc
        self._rng = random.Random(seed)
        self._signer = EvmSigner(KEY)
        self._busy = asyncio.Lock()
        # accounts that burn while they are signaled, and all that accept any signature
        self.burners: frozenset[str] = frozenset()
        self.accepting: frozenset[str] = frozenset()
        self._calming: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        return self._signer.address

    async def front_run(self, raw: bytes) -> None:
        """Submit some of a transaction's payments, or a copy of it, before the transaction."""
        transaction = rlp.decode(raw[1:])
        lists = decode_settlement(transaction[7])
        if lists is None:
            to, data = "0x" + transaction[5].hex(), transaction[7]
            if data[:4] in _COPIED and self._rng.random() < _COPIED_SHARE:
                await self._send(to, data, int.from_bytes(transaction[4]))
            return
        arguments = [[pay for pay in pays if self._rng.random() < 0.6] for pays in lists]
        if not any(arguments):
            return
        if self._rng.random() < 0.25:
            # an account that accepts any signature can be robbed by anyone, with Florin or without
            arguments = [
                [replace(pay, dest=THIEF) for pay in pays if pay.payer not in self.accepting]
                for pays in arguments
            ]
        gas = 400_000 * sum(map(len, arguments)) + 100_000
        await self._send(DEVNET.settler, settler.encode_settle(*arguments), gas)

    async def signal_burners(self, raw: bytes) -> None:
        """Signal the transaction's burning accounts to burn, and to behave again later."""
        lists = decode_settlement(rlp.decode(raw[1:])[7])
        if lists is None:
            return
        burning = [
            arguments.payer
            for pays in lists
            for arguments in pays
            if arguments.payer in self.burners
        ]
        for payer in burning:
            await self._send(payer, b"", 80_000, value=1)
        if burning:
            task = asyncio.create_task(self._calm_later(burning))
            self._calming.add(task)
            task.add_done_callback(self._calming.discard)

    async def _calm_later(self, payers: list[str]) -> None:
        await asyncio.sleep(_BURN_S)
        for payer in payers:
            await self._send(payer, b"", 80_000)

    async def _send(self, to: str, data: bytes, gas: int, value: int = 0) -> None:
        async with self._busy:
            count = await self._rpc.call("eth_getTransactionCount", self.address, "pending")
            sent = self._signer.sign_call(
                chain_id=DEVNET.chain_id,
                nonce=int(count, 16),
                fees=TransactionFees(max_fee=200 * _GWEI, tip=20 * _GWEI),
                gas=gas,
                to=to,
                data=data,
                value=value,
            )
            try:
                await self._rpc.call("eth_sendRawTransaction", "0x" + sent.raw.hex())
            except RpcError:
                # its pool is full, or its coin is gone: nothing depends on it
                return


def decode_settlement(data: bytes) -> tuple[list[PayArguments], list[PayArguments]] | None:
    """Return the items of a settlement, or None for another call."""
    called, arguments = data[:4], data[4:]
    if called == OPEN:
        # accounts are created first, and the settlement comes last
        at = int.from_bytes(arguments[64:96], "big")
        size = int.from_bytes(arguments[at : at + 32], "big")
        return decode_settlement(arguments[at + 32 : at + 32 + size])
    if called == settler.SETTLE_3009:
        return _pays(eth_abi.decode([_PAYS], arguments)[0]), []
    if called == settler.SETTLE_PERMIT2:
        return [], _pays(eth_abi.decode([_PAYS], arguments)[0])
    if called == settler.SETTLE:
        first, second = eth_abi.decode([_PAYS, _PAYS], arguments)
        return _pays(first), _pays(second)
    return None


def _pays(decoded: Any) -> list[PayArguments]:
    names = [field.name for field in fields(PayArguments)]
    return [PayArguments(**dict(zip(names, item, strict=True))) for item in decoded]
