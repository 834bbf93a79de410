"""Buyers: wallets that are the same for each seed, and have patience with their chains."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass
from typing import Any

from eth_account import Account
from florin_server.devnet.evm import DEVNET
from solders.keypair import Keypair

from tests.chaos.plan import Mood, Order, Way
from tests.chaos.stage import FACTORY, Stage
from tests.chaos.till import LOOK_S, ChainRefused, Till
from tests.support.chain import Chain
from tests.support.hostile import ANY_TOKEN, BURNS_IN_ODD_BLOCKS, SWITCHED
from tests.support.smart import Smart, made_by, smart
from tests.support.solana import SolanaWallet
from tests.support.wallet import MUTE, Wallet

_FAUCET_MAX = 80
# looks at a receipt before a transaction is sent once more
_LOOKS = 40


_HELPER = Way.EIP3009, 10**6
_VAULTS = 10**6 + 1


class Purse(Wallet):
    """Sends one transaction after the other, and again until each is in a block."""

    def __init__(self, secret: bytes) -> None:
        super().__init__(key=secret)
        self.busy = asyncio.Lock()
        self._sent: dict[int, str] = {}  # by nonce
        self._hashes: dict[str, int] = {}  # the nonces of transactions

    async def push(self, chain: Chain, **fields: Any) -> bool:
        """Sends a call, and waits until it is in a block; False if it came to nothing."""
        try:
            receipt = await self.transact(chain, **fields)
        except ChainRefused:
            # it costs more than there is
            return False
        return bool(receipt["status"] == "0x1")

    def scrawl(self) -> str:
        """A signature of something."""
        return "0x" + bytes(self._account.unsafe_sign_hash(b"\x66" * 32).signature).hex()

    async def tend(self, chain: Chain, tx_hash: str) -> None:
        """Sends a transaction again, and what stands before it, if its block is gone."""
        if tx_hash not in self._hashes:
            return
        if await chain.ask("eth_getTransactionReceipt", tx_hash) is None:
            await self._push_all(chain, self._hashes[tx_hash])

    async def _push_all(self, chain: Chain, nonce: int) -> None:
        for raw in (self._sent[one] for one in sorted(self._sent) if one <= nonce):
            await self._push(chain, raw)

    async def gas_for(self, chain: Chain, call: dict[str, Any]) -> int:
        """Half as much again, as wallets do.

        A reorganisation may take the payment that created the account which this one pays, and
        then this one has to create it, for 25,000 gas more.
        """
        return await super().gas_for(chain, call) * 3 // 2

    async def transact(self, chain: Chain, **fields: Any) -> dict[str, Any]:
        nonce = int(await chain.ask("eth_getTransactionCount", self.address, "pending"), 16)
        usual = {
            "chainId": DEVNET.chain_id,
            "nonce": nonce,
            "maxFeePerGas": 10**11,
            "maxPriorityFeePerGas": 10**9,
        }
        signed = self._account.sign_transaction(usual | fields)
        self._sent[nonce] = "0x" + signed.raw_transaction.hex()
        self._hashes["0x" + signed.hash.hex()] = nonce
        while True:
            # one before it may have vanished with its block
            await self._push_all(chain, nonce)
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


class SmartPurse:
    """An account that is created with its first payment."""

    def __init__(self, smart: Smart) -> None:
        self.smart = smart
        self.address = smart.address
        self.account = f"eip155:{DEVNET.chain_id}:{smart.address}"
        self.busy = asyncio.Lock()


@dataclass
class Codes:
    """Contracts of attackers. Without somebody who sees what relayers send nobody switches."""

    switched: str = ""
    odd: str = ""
    junk: str = ""
    watched: bool = True

    def burning(self, order: Order) -> str:
        """The code of an account that burns gas."""
        return self.switched if self.watched and order.variant % 3 else self.odd


class SolanaPurse(SolanaWallet):
    def __init__(self, secret: bytes) -> None:
        self.key = Keypair.from_seed(secret)
        self.address = str(self.key.pubkey())


class Purses:
    """Every buyer of a plan, with money."""

    def __init__(self, seed: int, orders: tuple[Order, ...], *, embedded: bool) -> None:
        self._seed = seed
        self._orders = orders
        self._embedded = embedded
        self.codes = Codes(watched=not embedded)
        self.evm: dict[tuple[Way, int], Any] = {}
        self.solana: dict[tuple[Way, int], SolanaPurse] = {}
        for order in orders:
            key = (order.way, order.buyer)
            if order.mood is Mood.CREATOR:
                self.evm[key] = SmartPurse(self._smart(order))
            elif order.way.on_solana:
                self.solana.setdefault(key, SolanaPurse(self._secret(key)))
            else:
                self.evm.setdefault(key, Purse(self._secret(key)))
            if order.mood is Mood.MOVER:
                self.evm.setdefault(vault := _vault(key), Purse(self._secret(vault)))
        self.helper = self.evm[_HELPER] = Purse(self._secret(_HELPER))

    def vault(self, order: Order) -> Purse:
        """Where a buyer moves its money to."""
        found: Purse = self.evm[_vault((order.way, order.buyer))]
        return found

    def _smart(self, order: Order) -> Smart:
        owner = Account.from_key(self._secret((order.way, order.buyer)))
        if self._embedded or order.variant % 2:
            return smart(owner, order.n)
        return made_by(FACTORY, owner, BURNS_IN_ODD_BLOCKS, order.n)

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
        else:
            # the same for the euro, which only few buyers pay with
            gift = {"accounts": [stage.treasuries()[0]], "tokens": [DEVNET.euro.address]}
            await till.evm.ask("florin_faucet", {**gift, "nativeWei": "0x0"})
        evm, helper = till.evm, self.helper
        for name, runtime in (
            ("switched", SWITCHED),
            ("odd", BURNS_IN_ODD_BLOCKS),
            ("junk", ANY_TOKEN),
        ):
            place = await helper.deploy(evm, bytes.fromhex(runtime))
            setattr(self.codes, name, place.rpartition(":")[2].lower())
        burners = [one for one in self._orders if one.mood in {Mood.BURNER, Mood.TURNCOAT}]
        await asyncio.gather(
            *(
                self.of(one).delegate(evm, self.codes.burning(one))
                for one in burners
                if one.mood is Mood.BURNER
            )
        )
        if not self._embedded:
            await till.employ([self.of(one).address.lower() for one in burners])
        # accounts with code that cannot sign
        mute = [purse for (way, _), purse in self.evm.items() if way is Way.DIRECT]
        await asyncio.gather(*(purse.delegate(till.evm, MUTE) for purse in mute))


def _vault(key: tuple[Way, int]) -> tuple[Way, int]:
    way, buyer = key
    return way, _VAULTS + buyer
