"""Gives test money away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import coincurve
import rlp
from eth_hash.auto import keccak
from eth_typing import Address

from florin_server.devnet.errors import RpcFault
from florin_server.devnet.evm.calls import simulate
from florin_server.devnet.evm.chain import GWEI, Chain, Moment
from florin_server.devnet.evm.params import Call
from florin_server.devnet.genesis import DEVNET, DevToken

GIFT_WEI: Final = 10**18
GIFT_TOKENS: Final = 10_000

_BALANCE_OF: Final = keccak(b"balanceOf(address)")[:4]
_MINT: Final = keccak(b"mint(address,uint256)")[:4]
_FAUCET: Final = bytes.fromhex(DEVNET.faucet[2:])
_GAS: Final = 150_000  # enough for a mint, and for a contract account to receive coin


def top_up(
    chain: Chain,
    accounts: Sequence[bytes],
    tokens: Sequence[DevToken],
    wei: int | None,
    units: int | None,
    *,
    rarely: bool = False,
) -> list[bytes]:
    """Sees to it that each account has that much; returns the transactions, mined.

    `wei` is of the coin, `units` of each token. Without an amount an account gets
    the usual gift once it has less than half of it; with `rarely` that goes for amounts too.
    """
    queue: list[tuple[bytes, int, bytes]] = []
    for account in dict.fromkeys(accounts):
        coin = missing(chain.state.get_balance(Address(account)), wei, GIFT_WEI, rarely=rarely)
        if coin:
            queue.append((account, coin, b""))
        for token in tokens:
            place, gift = bytes.fromhex(token.address[2:]), GIFT_TOKENS * 10**token.decimals
            lacking = missing(_held(chain, place, account), units, gift, rarely=rarely)
            if lacking:
                arguments = account.rjust(32, b"\0") + lacking.to_bytes(32, "big")
                queue.append((place, 0, _MINT + arguments))
    if not queue:
        return []
    sent = [_send(chain, to, value, data) for to, value, data in queue]
    before = chain.head.number
    while any(chain.pool.get(one) for one in sent):
        block = chain.mine(only=_FAUCET)
        if block.gas_used == 0:
            raise RpcFault("the faucet is stuck: its key was used elsewhere")
    failed = b'"status":"0x0"'
    if any(failed in receipt for receipt in chain.history.receipts(before + 1, chain.head.number)):
        raise RpcFault("the token refused to mint, or an account refused the coin")
    return sent


def missing(has: int, asked: int | None, gift: int, *, rarely: bool = False) -> int:
    """What to add to what an account has; nothing if it has enough."""
    wanted = gift if asked is None else asked
    if asked is None or rarely:
        return wanted - has if has < (wanted + 1) // 2 else 0
    return max(0, wanted - has)


def _held(chain: Chain, token: bytes, account: bytes) -> int:
    call = Call(
        sender=bytes(20), to=token, gas=None, value=0, data=_BALANCE_OF + account.rjust(32, b"\0")
    )
    at = Moment(chain.head, chain.head.number, chain.head.time)
    return int.from_bytes(simulate(chain, call, at), "big")


def _send(chain: Chain, to: bytes, value: int, data: bytes) -> bytes:
    nonce = chain.pool.next_nonce(_FAUCET, chain.state.get_nonce(Address(_FAUCET)))
    fee = chain.base_fee * 2 + GWEI
    content = [chain.chain_id, nonce, GWEI, fee, _GAS, to, value, data, []]
    digest = keccak(b"\x02" + rlp.encode(content))
    signature = coincurve.PrivateKey(DEVNET.faucet_key).sign_recoverable(digest, hasher=None)
    r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:64], "big")
    raw = b"\x02" + rlp.encode([*content, signature[64], r, s])
    return chain.submit(raw).hash
