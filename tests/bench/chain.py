"""Measure the embedded chain's own pace with signed settlements sent straight to it."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvloop
from florin_sandbox.devnet.evm import DEVNET, EvmDevChain, EvmDevSettings
from florin_server.domain.chains.evm.route import RouteKind, SettlementRoute
from florin_server.domain.chains.evm.signatures import derive_address, sign_digest
from florin_server.domain.chains.evm.typed_data import Eip712Domain, ReceiveWithAuthorization
from florin_server.rails.connection.jsonrpc import JsonRpcClient, LocalTransport
from florin_server.rails.evm import settler
from florin_server.rails.evm.sending.fees import (
    KEY_GAS,
    TransactionFees,
    compute_payment_share,
    compute_transaction_gas,
)
from florin_server.rails.evm.sending.transactions import EvmSigner
from florin_server.rails.evm.settler import PayArguments

PRICE = 12_500_000
CONCURRENCY = 64
_GWEI = 10**9
_ZERO_ADDRESS = "0x" + "00" * 20
_MERCHANT = "0x" + "ca" * 20


@dataclass(frozen=True, slots=True)
class Pushed:
    """The pace at which the chain mined settlements."""

    rate: float
    cpu_ms: float


def push(count: int) -> Pushed:
    """Mine `count` settlements, one per transaction, and check that all paid."""
    with tempfile.TemporaryDirectory(prefix="florin-bench-") as folder:
        return uvloop.run(_push(Path(folder) / "evm.db", count))


async def _push(path: Path, count: int) -> Pushed:
    chain = await EvmDevChain.open(path, EvmDevSettings())
    rpc = JsonRpcClient(LocalTransport(chain.handle))
    relayer = EvmSigner(os.urandom(32))
    keys = [os.urandom(32) for _ in range(count)]
    buyers = [derive_address(key) for key in keys]
    gift = {"nativeWei": hex(10**21), "tokenUnits": "0x0"}
    await rpc.call("florin_faucet", {"accounts": [relayer.address], **gift})
    for start in range(0, count, 100):
        part = {"accounts": buyers[start : start + 100], "nativeWei": "0x0"}
        await rpc.call("florin_faucet", part)
    sent = [
        json.dumps(
            {
                "jsonrpc": "2.0",
                "id": nonce,
                "method": "eth_sendRawTransaction",
                "params": ["0x" + _transaction(relayer, nonce, key, buyer).hex()],
            }
        ).encode()
        for nonce, (key, buyer) in enumerate(zip(keys, buyers, strict=True))
    ]
    cpu_s, started = time.process_time(), time.perf_counter()
    hashes = await _submit(chain, sent)
    seconds, used_s = time.perf_counter() - started, time.process_time() - cpu_s
    await _check(rpc, hashes)
    await chain.close()
    return Pushed(count / seconds, used_s / count * 1e3)


async def _submit(chain: EvmDevChain, sent: list[bytes]) -> list[str]:
    """Submit in order, because each transaction has the nonce after its predecessor's."""
    limit = asyncio.Semaphore(CONCURRENCY)

    async def submit(payload: bytes) -> Any:
        async with limit:
            return json.loads(await chain.handle(payload))

    answers = await asyncio.gather(*(submit(payload) for payload in sent))
    return [answer["result"] for answer in answers]


async def _check(rpc: JsonRpcClient, hashes: list[str]) -> None:
    for tx_hash in hashes:
        receipt = await rpc.call("eth_getTransactionReceipt", tx_hash)
        paid = [log for log in receipt["logs"] if log["topics"][0] == settler.PAID_TOPIC]
        if receipt["status"] != "0x1" or len(paid) != 1:
            raise RuntimeError(f"a settlement failed on the chain: {receipt}")


def _transaction(relayer: EvmSigner, nonce: int, key: bytes, buyer: str) -> bytes:
    return settlement(relayer, nonce, [(key, buyer)], DEVNET.chain_id)


def settlement(
    relayer: EvmSigner, nonce: int, payers: Sequence[tuple[bytes, str]], chain_id: int
) -> bytes:
    """Return a signed transaction in which each payer pays once."""
    pays = [_pay(key, buyer, chain_id) for key, buyer in payers]
    data = settler.encode_settle_one(pays[0]) if len(pays) == 1 else settler.encode_settle(pays)
    return relayer.sign_call(
        chain_id=chain_id,
        nonce=nonce,
        fees=TransactionFees(max_fee=100 * _GWEI, tip=_GWEI),
        gas=compute_transaction_gas(
            sum(compute_payment_share(arguments.gas, arguments.size) for arguments in pays),
            len(data),
        ),
        to=DEVNET.settler,
        data=data,
    ).raw


def _pay(key: bytes, buyer: str, chain_id: int) -> PayArguments:
    token, valid_before = DEVNET.token, int(time.time()) + 900
    route = SettlementRoute(
        chain_id=chain_id,
        settler=DEVNET.settler,
        kind=RouteKind.EIP3009,
        token=token.address,
        value=PRICE,
        valid_before=valid_before,
        dest=_MERCHANT,
        fee_to=_ZERO_ADDRESS,
        fee=0,
        ref=os.urandom(32),
    )
    message = ReceiveWithAuthorization(
        Eip712Domain(token.name, token.version, chain_id, token.address),
        buyer,
        DEVNET.settler,
        PRICE,
        0,
        valid_before,
        route.compute_nonce(),
    )
    signature = sign_digest(key, message.compute_digest())
    return PayArguments(
        token=token.address,
        payer=buyer,
        value=PRICE,
        valid_after=0,
        valid_before=valid_before,
        dest=_MERCHANT,
        fee_to=_ZERO_ADDRESS,
        fee=0,
        ref=route.ref,
        gas=KEY_GAS,
        signature=signature[:64] + bytes((signature[64] + 27,)),
    )
