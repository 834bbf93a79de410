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
from florin_server.devnet.gifts import DEAREST, Gift, Gifts, Kind, missing

GIFT_WEI: Final = 10**18
GIFT_TOKENS: Final = 10_000

# what relayers and treasuries begin with, ten times over; the dearest payment, in a token
COIN: Final = Kind("coin", GIFT_WEI, 10**22)
TOKENS: Final = {
    token: Kind(token.symbol, GIFT_TOKENS * 10**token.decimals, DEAREST * 10**token.decimals)
    for token in DEVNET.tokens
}
_BALANCE_OF: Final = keccak(b"balanceOf(address)")[:4]
_MINT: Final = keccak(b"mint(address,uint256)")[:4]
_FAUCET: Final = bytes.fromhex(DEVNET.faucet[2:])
_GAS: Final = 150_000  # enough for a mint, and for a contract account to receive coin


def top_up(  # noqa: PLR0917  (one of each, none alike)
    chain: Chain,
    gifts: Gifts,
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
    RpcFault, and nobody gets anything, if that is more than the faucet may give.
    """
    queue: list[tuple[bytes, int, bytes]] = []
    wanted: list[Gift] = []
    for account in dict.fromkeys(accounts):
        held = chain.state.get_balance(Address(account))
        coin = missing(held, wei, GIFT_WEI, rarely=rarely) if chain.fees is None else 0
        if coin:
            queue.append((account, coin, b""))
            wanted.append(Gift(COIN, GIFT_WEI if wei is None else wei, coin))
        for token in tokens:
            place, gift = bytes.fromhex(token.address[2:]), GIFT_TOKENS * 10**token.decimals
            lacking = missing(_held(chain, place, account), units, gift, rarely=rarely)
            if lacking:
                kind = TOKENS[token]
                wanted.append(Gift(kind, kind.usual if units is None else units, lacking))
                queue.append((place, lacking, account))
    if not queue:
        return []
    gifts.take(wanted)
    sent = [
        _send(chain, to, 0, _MINT + account.rjust(32, b"\0") + amount.to_bytes(32, "big"))
        if account
        else _send(chain, to, amount, b"")
        for to, amount, account in queue
    ]
    before = chain.head.number
    while any(chain.pool.get(one) for one in sent):
        block = chain.mine(only=_FAUCET)
        if block.gas_used == 0:
            raise RpcFault("the faucet is stuck: its key was used elsewhere")
    failed = b'"status":"0x0"'
    if any(failed in receipt for receipt in chain.history.receipts(before + 1, chain.head.number)):
        raise RpcFault("the token refused to mint, or an account refused the coin")
    return sent


def _held(chain: Chain, token: bytes, account: bytes) -> int:
    call = Call(
        sender=bytes(20), to=token, gas=None, value=0, data=_BALANCE_OF + account.rjust(32, b"\0")
    )
    at = Moment(chain.head, chain.head.number, chain.head.time)
    return int.from_bytes(simulate(chain, call, at), "big")


def _send(chain: Chain, to: bytes, value: int, data: bytes) -> bytes:
    nonce = chain.pool.next_nonce(_FAUCET, chain.state.get_nonce(Address(_FAUCET)))
    fee = chain.base_fee * 2 + GWEI
    prices = chain.schedule
    gas = _GAS + 2 * prices.slot_extra + 2 * prices.account_extra
    content = [chain.chain_id, nonce, GWEI, fee, gas, to, value, data, []]
    digest = keccak(b"\x02" + rlp.encode(content))
    signature = coincurve.PrivateKey(DEVNET.faucet_key).sign_recoverable(digest, hasher=None)
    r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:64], "big")
    raw = b"\x02" + rlp.encode([*content, signature[64], r, s])
    return chain.submit(raw).hash
