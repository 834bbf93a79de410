"""The embedded chain's own pace: signed settlements pushed straight into it."""

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
from coincurve import PrivateKey
from florin_server.chains.evm.route import Kind, Route
from florin_server.chains.evm.signatures import address_of_key
from florin_server.chains.evm.typed_data import Domain, ReceiveWithAuthorization
from florin_server.devnet.evm import DEVNET, EvmDevChain, EvmDevSettings
from florin_server.rails.connection.jsonrpc import JsonRpc, LocalTransport
from florin_server.rails.evm import settler
from florin_server.rails.evm.sending.fees import KEY_GAS, Fees, payment_share, transaction_gas
from florin_server.rails.evm.sending.transactions import Signer
from florin_server.rails.evm.settler import Pay

PRICE = 12_500_000
CONCURRENCY = 64
_GWEI = 10**9
_NOBODY = "0x" + "00" * 20
_MERCHANT = "0x" + "ca" * 20


@dataclass(frozen=True, slots=True)
class Pushed:
    """How fast the chain mined settlements."""

    rate: float
    cpu_ms: float


def push(count: int) -> Pushed:
    """Mines that many settlements, one in each transaction, and proves that all paid."""
    with tempfile.TemporaryDirectory(prefix="florin-bench-") as folder:
        return uvloop.run(_push(Path(folder) / "evm.db", count))


async def _push(path: Path, count: int) -> Pushed:
    chain = await EvmDevChain.open(path, EvmDevSettings())
    rpc = JsonRpc(LocalTransport(chain.handle))
    relayer = Signer(os.urandom(32))
    keys = [PrivateKey() for _ in range(count)]
    buyers = [address_of_key(key.public_key) for key in keys]
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
    """In order, because each transaction has the nonce after its predecessor's."""
    limit = asyncio.Semaphore(CONCURRENCY)

    async def one(payload: bytes) -> Any:
        async with limit:
            return json.loads(await chain.handle(payload))

    answers = await asyncio.gather(*(one(payload) for payload in sent))
    return [answer["result"] for answer in answers]


async def _check(rpc: JsonRpc, hashes: list[str]) -> None:
    for tx_hash in hashes:
        receipt = await rpc.call("eth_getTransactionReceipt", tx_hash)
        paid = [log for log in receipt["logs"] if log["topics"][0] == settler.PAID]
        if receipt["status"] != "0x1" or len(paid) != 1:
            raise RuntimeError(f"a settlement failed on the chain: {receipt}")


def _transaction(relayer: Signer, nonce: int, key: PrivateKey, buyer: str) -> bytes:
    return settlement(relayer, nonce, [(key, buyer)], DEVNET.chain_id)


def settlement(
    relayer: Signer, nonce: int, payers: Sequence[tuple[PrivateKey, str]], chain_id: int
) -> bytes:
    """A signed transaction in which each of the payers pays once."""
    pays = [_pay(key, buyer, chain_id) for key, buyer in payers]
    data = settler.one(pays[0]) if len(pays) == 1 else settler.settle(pays)
    return relayer.sign_call(
        chain_id=chain_id,
        nonce=nonce,
        fees=Fees(max_fee=100 * _GWEI, tip=_GWEI),
        gas=transaction_gas(sum(payment_share(one.gas, one.size) for one in pays), len(data)),
        to=DEVNET.settler,
        data=data,
    ).raw


def _pay(key: PrivateKey, buyer: str, chain_id: int) -> Pay:
    token, valid_before = DEVNET.token, int(time.time()) + 900
    route = Route(
        chain_id=chain_id,
        settler=DEVNET.settler,
        kind=Kind.EIP3009,
        token=token.address,
        value=PRICE,
        valid_before=valid_before,
        dest=_MERCHANT,
        fee_to=_NOBODY,
        fee=0,
        ref=os.urandom(32),
    )
    message = ReceiveWithAuthorization(
        Domain(token.name, token.version, chain_id, token.address),
        buyer,
        DEVNET.settler,
        PRICE,
        0,
        valid_before,
        route.nonce(),
    )
    signature = key.sign_recoverable(message.digest(), hasher=None)
    return Pay(
        token=token.address,
        payer=buyer,
        value=PRICE,
        valid_after=0,
        valid_before=valid_before,
        dest=_MERCHANT,
        fee_to=_NOBODY,
        fee=0,
        ref=route.ref,
        gas=KEY_GAS,
        signature=signature[:64] + bytes((signature[64] + 27,)),
    )
