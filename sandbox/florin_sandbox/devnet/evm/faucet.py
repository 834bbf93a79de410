"""The faucet, which gives test money."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import rlp
from eth_hash.auto import keccak
from eth_typing import Address
from florin_server.domain.chains.evm.signatures import sign_digest
from florin_server.rails.networks.embedded import EmbeddedToken

from florin_sandbox.devnet.errors import RpcFault
from florin_sandbox.devnet.evm.calls import simulate_call
from florin_sandbox.devnet.evm.chain import GWEI, EmbeddedEvmChain, ExecutionMoment
from florin_sandbox.devnet.evm.params import EvmCall
from florin_sandbox.devnet.faucet_limits import (
    ACCOUNT_MAX_UNITS,
    FaucetGift,
    GiftBudgets,
    GiftKind,
    compute_gift,
)
from florin_sandbox.devnet.genesis import DEVNET

GIFT_WEI: Final = 10**18
GIFT_TOKENS: Final = 10_000

# ten times the initial funds of relayers and treasuries; for a token, the highest payment
COIN: Final = GiftKind("coin", GIFT_WEI, 10**22)
TOKENS: Final = {
    token: GiftKind(
        token.symbol, GIFT_TOKENS * 10**token.decimals, ACCOUNT_MAX_UNITS * 10**token.decimals
    )
    for token in DEVNET.tokens
}
_BALANCE_OF: Final = keccak(b"balanceOf(address)")[:4]
_MINT: Final = keccak(b"mint(address,uint256)")[:4]
_FAUCET: Final = bytes.fromhex(DEVNET.faucet[2:])
_GAS: Final = 150_000  # enough for a mint, and for a contract account to receive coin


def top_up_accounts(  # noqa: PLR0917  (each of another type)
    chain: EmbeddedEvmChain,
    gifts: GiftBudgets,
    accounts: Sequence[bytes],
    tokens: Sequence[EmbeddedToken],
    wei: int | None,
    units: int | None,
    *,
    only_below_half: bool = False,
) -> list[bytes]:
    """Fill each account up to an amount; return the transactions, mined.

    `wei` is of the coin, `units` of each token. Without an amount an account gets the usual gift if
    it has less than half of it; with `only_below_half` that also applies to amounts. If the total
    exceeds the faucet's limits, raise RpcFault and give nothing.
    """
    queue: list[tuple[bytes, int, bytes]] = []
    faucet_gifts: list[FaucetGift] = []
    for account in dict.fromkeys(accounts):
        held = chain.state.get_balance(Address(account))
        coin = (
            compute_gift(held, wei, GIFT_WEI, only_below_half=only_below_half)
            if chain.fees is None
            else 0
        )
        if coin:
            queue.append((account, coin, b""))
            faucet_gifts.append(FaucetGift(COIN, GIFT_WEI if wei is None else wei, coin))
        for token in tokens:
            place, gift = bytes.fromhex(token.address[2:]), GIFT_TOKENS * 10**token.decimals
            lacking = compute_gift(
                _read_balance(chain, place, account), units, gift, only_below_half=only_below_half
            )
            if lacking:
                kind = TOKENS[token]
                faucet_gifts.append(
                    FaucetGift(kind, kind.usual_amount if units is None else units, lacking)
                )
                queue.append((place, lacking, account))
    if not queue:
        return []
    gifts.take_gifts(faucet_gifts)
    sent = [
        _send_transaction(
            chain, to, 0, _MINT + account.rjust(32, b"\0") + amount.to_bytes(32, "big")
        )
        if account
        else _send_transaction(chain, to, amount, b"")
        for to, amount, account in queue
    ]
    before = chain.head.number
    while any(chain.pool.find_transaction(tx_hash) for tx_hash in sent):
        block = chain.mine_block(sender=_FAUCET)
        if block.gas_used == 0:
            raise RpcFault("the faucet is stuck: another program used its key")
    failed = b'"status":"0x0"'
    if any(
        failed in receipt for receipt in chain.history.list_receipts(before + 1, chain.head.number)
    ):
        raise RpcFault("the token refused to mint, or an account refused the coin")
    return sent


def _read_balance(chain: EmbeddedEvmChain, token: bytes, account: bytes) -> int:
    call = EvmCall(
        sender=bytes(20), to=token, gas=None, value=0, data=_BALANCE_OF + account.rjust(32, b"\0")
    )
    at = ExecutionMoment(chain.head, chain.head.number, chain.head.time)
    return int.from_bytes(simulate_call(chain, call, at), "big")


def _send_transaction(chain: EmbeddedEvmChain, to: bytes, value: int, data: bytes) -> bytes:
    nonce = chain.pool.get_next_nonce(_FAUCET, chain.state.get_nonce(Address(_FAUCET)))
    fee = chain.base_fee * 2 + GWEI
    prices = chain.schedule
    gas = _GAS + 2 * prices.slot_extra + 2 * prices.account_extra
    content = [chain.chain_id, nonce, GWEI, fee, gas, to, value, data, []]
    digest = keccak(b"\x02" + rlp.encode(content))
    signature = sign_digest(DEVNET.faucet_key, digest)
    r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:64], "big")
    raw = b"\x02" + rlp.encode([*content, signature[64], r, s])
    return chain.submit_transaction(raw).hash
