"""Buyers: wallets that are the same for each seed, and have patience with their chains."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

from eth_account import Account
from florin_server.devnet.evm import DEVNET
from solders.keypair import Keypair

from tests.chaos.plan import Order, Way
from tests.chaos.stage import Stage
from tests.chaos.till import LOOK_S, ChainRefused, Till
from tests.support.chain import Chain
from tests.support.solana import SolanaWallet
from tests.support.wallet import Wallet

_FAUCET_MAX = 80
# looks at a receipt before a transaction is sent once more
_LOOKS = 40


class Purse(Wallet):
    """Sends one transaction after the other, and again until each is in a block."""

    def __init__(self, secret: bytes) -> None:
        super().__init__()
        self._account = Account.from_key(secret)
        self.address = self._account.address
        self.busy = asyncio.Lock()
        self._sent: dict[int, str] = {}  # by nonce

    async def _send(self, chain: Chain, **fields: Any) -> dict[str, Any]:
        nonce = int(await chain.ask("eth_getTransactionCount", self.address, "pending"), 16)
        usual = {
            "chainId": DEVNET.chain_id,
            "nonce": nonce,
            "maxFeePerGas": 10**11,
            "maxPriorityFeePerGas": 10**9,
        }
        signed = self._account.sign_transaction(usual | fields)
        self._sent[nonce] = "0x" + signed.raw_transaction.hex()
        while True:
            # one before it may have vanished with its block
            for raw in (self._sent[one] for one in sorted(self._sent) if one <= nonce):
                await self._push(chain, raw)
            for _ in range(_LOOKS):
                receipt = await chain.ask("eth_getTransactionReceipt", "0x" + signed.hash.hex())
                if receipt is not None:
                    return receipt
                await asyncio.sleep(LOOK_S)

    async def _push(self, chain: Chain, raw: str) -> None:
        try:
            await chain.ask("eth_sendRawTransaction", raw)
        except ChainRefused as refusal:
            if not any(text in str(refusal) for text in ("already known", "nonce too low")):
                raise


class SolanaPurse(SolanaWallet):
    def __init__(self, secret: bytes) -> None:
        self.key = Keypair.from_seed(secret)
        self.address = str(self.key.pubkey())


class Purses:
    """Every buyer of a plan, with money."""

    def __init__(self, seed: int, orders: tuple[Order, ...]) -> None:
        self._seed = seed
        self.evm: dict[tuple[Way, int], Purse] = {}
        self.solana: dict[tuple[Way, int], SolanaPurse] = {}
        for order in orders:
            key = (order.way, order.buyer)
            if order.way.on_solana:
                self.solana.setdefault(key, SolanaPurse(self._secret(key)))
            else:
                self.evm.setdefault(key, Purse(self._secret(key)))

    def of(self, order: Order) -> Any:
        key = (order.way, order.buyer)
        return self.solana[key] if order.way.on_solana else self.evm[key]

    def _secret(self, key: tuple[Way, int]) -> bytes:
        return hashlib.sha256(f"chaos {self._seed} {key[0]} {key[1]}".encode()).digest()

    async def fill(self, till: Till, stage: Stage) -> None:
        """Lets the faucets fill everybody; relayers of foreign chains too."""
        accounts = [purse.address for purse in self.evm.values()]
        for start in range(0, len(accounts), _FAUCET_MAX):
            part = accounts[start : start + _FAUCET_MAX]
            tokens = [token.address for token in DEVNET.tokens]
            await till.evm.ask("florin_faucet", {"accounts": part, "tokens": tokens})
        owners = [purse.address for purse in self.solana.values()]
        for start in range(0, len(owners), _FAUCET_MAX):
            part = owners[start : start + _FAUCET_MAX]
            await till.solana.ask("florin_faucet", {"accounts": part})
        if not stage.embedded:
            gift = {"nativeWei": hex(10**21), "tokenUnits": "0x0"}
            await till.evm.ask("florin_faucet", {"accounts": [*stage.relayers()], **gift})
            gift = {"tokens": [], "lamports": 10**12}
            treasuries = stage.treasuries()
            accounts = [stage.solana_relayer, treasuries[1]]
            await till.solana.ask("florin_faucet", {"accounts": accounts, **gift})
            # what is refunded before anything was received
            tokens = [token.address for token in DEVNET.tokens]
            gift = {"accounts": [treasuries[0]], "tokens": tokens, "nativeWei": hex(10**21)}
            await till.evm.ask("florin_faucet", gift)
            await till.solana.ask("florin_faucet", {"accounts": [treasuries[1]]})
        # accounts with code that cannot sign
        mute = [purse for (way, _), purse in self.evm.items() if way is Way.DIRECT]
        await asyncio.gather(*(purse.delegate(till.evm, DEVNET.settler) for purse in mute))
