"""Buyers: wallets derived from the seed, which wait patiently for their chains."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from dataclasses import dataclass
from typing import Any

from eth_account import Account
from florin_sandbox.devnet.evm import DEVNET
from florin_sandbox.devnet.genesis import load_artifact
from solders.keypair import Keypair

from tests.chaos.chaos_service import FACTORY, ChaosEnvironment
from tests.chaos.plan import BuyerBehavior, Order, Way
from tests.chaos.service_client import POLL_S, ChainRefused, ServiceClient
from tests.support.chain import ChainClient
from tests.support.contract_accounts import (
    ContractAccount,
    make_account_by_factory,
    make_contract_account,
)
from tests.support.hostile_accounts import ANY_TOKEN, BURNS_IN_ODD_BLOCKS, SWITCHED
from tests.support.payment_addresses import COIN_SENDER
from tests.support.solana import SolanaTestWallet
from tests.support.wallet import NON_SIGNING_ADDRESS, EvmTestWallet

_FAUCET_MAX = 80
# reads of a receipt before a transaction is sent again
_POLLS_MAX = 40


# some of these buyers name an account
_NAMING = 4
_NAMES_ACCOUNT = {BuyerBehavior.SHORT, BuyerBehavior.OVER, BuyerBehavior.TARDY}
_HELPER = Way.EIP3009, 10**6
_VAULTS = 10**6 + 1


class BuyerWallet(EvmTestWallet):
    """A wallet that sends one transaction after another, repeatedly until each is in a block."""

    def __init__(self, secret: bytes) -> None:
        super().__init__(key=secret)
        self.secret = secret
        self.lock = asyncio.Lock()
        self._sent: dict[int, str] = {}  # by nonce
        self._hashes: dict[str, int] = {}  # the nonces of transactions

    async def send_call(self, chain: ChainClient, **fields: Any) -> bool:
        """Send a call and wait until it is in a block; return False if it came to nothing."""
        try:
            receipt = await self.transact(chain, **fields)
        except ChainRefused:
            # it costs more than the wallet has
            return False
        return bool(receipt["status"] == "0x1")

    def sign_arbitrary(self) -> str:
        """Sign an arbitrary message."""
        return "0x" + bytes(self._account.unsafe_sign_hash(b"\x66" * 32).signature).hex()

    async def resend_lost(self, chain: ChainClient, tx_hash: str) -> None:
        """Resend a transaction and the ones before it if its block was replaced."""
        if tx_hash not in self._hashes:
            return
        if await chain.ask("eth_getTransactionReceipt", tx_hash) is None:
            await self._send_all(chain, self._hashes[tx_hash])

    async def resend_newest(self, chain: ChainClient) -> None:
        """Resend all transactions if the block of the newest was replaced."""
        if not self._hashes:
            return
        newest = max(self._hashes, key=self._hashes.__getitem__)
        # what costs more than the wallet has is refused again
        with contextlib.suppress(ChainRefused):
            await self.resend_lost(chain, newest)

    async def _send_all(self, chain: ChainClient, nonce: int) -> None:
        for raw in (self._sent[number] for number in sorted(self._sent) if number <= nonce):
            await self._send_raw(chain, raw)

    async def gas_for(self, chain: ChainClient, call: dict[str, Any]) -> int:
        """Return the gas estimate plus half, as wallets do.

        A reorganization can remove the payment that created the account paid here. Then this
        payment has to create it, for 25,000 gas more.
        """
        return await super().gas_for(chain, call) * 3 // 2

    async def transact(self, chain: ChainClient, **fields: Any) -> dict[str, Any]:
        nonce = int(await chain.ask("eth_getTransactionCount", self.address, "pending"), 16)
        # the chain may have lost the block of the transaction before, which is sent again
        nonce = max(nonce, *(number + 1 for number in self._sent), 0)
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
            # an earlier transaction may have disappeared with its block
            try:
                await self._send_all(chain, nonce)
            except ChainRefused:
                # another one can have its nonce
                self._sent.pop(nonce, None)
                raise
            for _ in range(_POLLS_MAX):
                receipt = await chain.ask("eth_getTransactionReceipt", "0x" + signed.hash.hex())
                if receipt is not None:
                    return receipt
                await asyncio.sleep(POLL_S)

    async def _send_raw(self, chain: ChainClient, raw: str) -> None:
        try:
            await chain.ask("eth_sendRawTransaction", raw)
        except ChainRefused as refusal:
            if not any(text in str(refusal) for text in ("already known", "nonce too low")):
                raise


class ContractBuyerWallet:
    """An account that its first payment creates."""

    def __init__(self, smart: ContractAccount) -> None:
        self.smart = smart
        self.address = smart.address
        self.account = f"eip155:{DEVNET.chain_id}:{smart.address}"
        self.lock = asyncio.Lock()


@dataclass
class Codes:
    """The attackers' contracts.

    They switch only if a stranger watches the relayers' transactions.
    """

    switched: str = ""
    odd: str = ""
    junk: str = ""
    # anyone can let them send, as exchanges' contracts do
    batch_sender: str = ""
    coin_sender: str = ""
    watched: bool = True

    def get_burning_code(self, order: Order) -> str:
        """Return the code of an account that burns gas."""
        return self.switched if self.watched and order.variant % 3 else self.odd


class SolanaBuyerWallet(SolanaTestWallet):
    def __init__(self, secret: bytes) -> None:
        self.key = Keypair.from_seed(secret)
        self.address = str(self.key.pubkey())


class BuyerWallets:
    """The wallets of all buyers of a plan, filled by the faucets."""

    def __init__(self, seed: int, orders: tuple[Order, ...], *, embedded: bool) -> None:
        self._seed = seed
        self._orders = orders
        self._embedded = embedded
        self.codes = Codes(watched=not embedded)
        self.evm: dict[tuple[Way, int], Any] = {}
        self.solana: dict[tuple[Way, int], SolanaBuyerWallet] = {}
        for order in orders:
            key = (order.way, order.buyer)
            if order.behavior is BuyerBehavior.CREATOR:
                self.evm[key] = ContractBuyerWallet(self._make_smart_account(order))
            elif order.way.is_on_solana:
                self.solana.setdefault(key, SolanaBuyerWallet(self._secret(key)))
            else:
                self.evm.setdefault(key, BuyerWallet(self._secret(key)))
            if order.behavior is BuyerBehavior.MOVER or order.way is Way.ADDRESS:
                self.evm.setdefault(vault := _get_vault_key(key), BuyerWallet(self._secret(vault)))
        self.helper = self.evm[_HELPER] = BuyerWallet(self._secret(_HELPER))

    def vault(self, order: Order) -> BuyerWallet:
        """Return the wallet to which a buyer moves its money."""
        wallet: BuyerWallet = self.evm[_get_vault_key((order.way, order.buyer))]
        return wallet

    def names_account(self, order: Order) -> bool:
        """Return whether a buyer at an address names an account for what comes back."""
        return order.variant == _NAMING and order.behavior in _NAMES_ACCOUNT

    def _make_smart_account(self, order: Order) -> ContractAccount:
        owner = Account.from_key(self._secret((order.way, order.buyer)))
        if self._creates_burner(order):
            return make_account_by_factory(FACTORY, owner, BURNS_IN_ODD_BLOCKS, order.n)
        return make_contract_account(owner, order.n)

    def _creates_burner(self, order: Order) -> bool:
        """Return whether a payment creates an account that burns, and accepts any signature."""
        return (
            order.behavior is BuyerBehavior.CREATOR and not self._embedded and not order.variant % 2
        )

    def get_wallet(self, order: Order) -> Any:
        key = (order.way, order.buyer)
        return self.solana[key] if order.way.is_on_solana else self.evm[key]

    def _secret(self, key: tuple[Way, int]) -> bytes:
        return hashlib.sha256(f"chaos {self._seed} {key[0]} {key[1]}".encode()).digest()

    async def fund(self, service_client: ServiceClient, environment: ChaosEnvironment) -> None:
        """Fill all wallets from the faucets, and the relayers of foreign chains."""
        accounts = [wallet.address for wallet in self.evm.values()]
        for start in range(0, len(accounts), _FAUCET_MAX):
            part = accounts[start : start + _FAUCET_MAX]
            tokens = [token.address for token in DEVNET.tokens]
            await service_client.evm.ask("florin_faucet", {"accounts": part, "tokens": tokens})
        owners = [wallet.address for wallet in self.solana.values()]
        for start in range(0, len(owners), _FAUCET_MAX):
            part = owners[start : start + _FAUCET_MAX]
            await service_client.solana.ask("florin_faucet", {"accounts": part})
        if not environment.embedded:
            gift = {"nativeWei": hex(10**21), "tokenUnits": "0x0"}
            await service_client.evm.ask(
                "florin_faucet", {"accounts": [*environment.relayers()], **gift}
            )
            gift = {"tokens": [], "lamports": 10**12}
            treasuries = environment.treasuries()
            accounts = [environment.solana_relayer, treasuries[1]]
            await service_client.solana.ask("florin_faucet", {"accounts": accounts, **gift})
            # money for refunds before the first payment is received
            tokens = [token.address for token in DEVNET.tokens]
            gift = {"accounts": [treasuries[0]], "tokens": tokens, "nativeWei": hex(10**21)}
            await service_client.evm.ask("florin_faucet", gift)
            await service_client.solana.ask("florin_faucet", {"accounts": [treasuries[1]]})
        else:
            # the euro too, in which few buyers pay
            gift = {"accounts": [environment.treasuries()[0]], "tokens": [DEVNET.euro.address]}
            await service_client.evm.ask("florin_faucet", {**gift, "nativeWei": "0x0"})
        evm, helper = service_client.evm, self.helper
        for name, runtime in (
            ("switched", SWITCHED),
            ("odd", BURNS_IN_ODD_BLOCKS),
            ("junk", ANY_TOKEN),
        ):
            place = await helper.deploy(evm, bytes.fromhex(runtime))
            setattr(self.codes, name, place.rpartition(":")[2].lower())
        await self._deploy_senders(service_client)
        burners = [
            order
            for order in self._orders
            if order.behavior in {BuyerBehavior.BURNER, BuyerBehavior.TURNCOAT}
        ]
        await asyncio.gather(
            *(
                self.get_wallet(order).delegate(evm, self.codes.get_burning_code(order))
                for order in burners
                if order.behavior is BuyerBehavior.BURNER
            )
        )
        if not self._embedded:
            accepting = [*burners, *filter(self._creates_burner, self._orders)]
            await service_client.set_burners(
                [self.get_wallet(order).address.lower() for order in burners],
                [self.get_wallet(order).address.lower() for order in accepting],
            )
        # accounts with code that cannot sign
        non_signers = [wallet for (way, _), wallet in self.evm.items() if way is Way.DIRECT]
        await asyncio.gather(
            *(wallet.delegate(service_client.evm, NON_SIGNING_ADDRESS) for wallet in non_signers)
        )

    async def _deploy_senders(self, service_client: ServiceClient) -> None:
        """Deploy the contracts that send to addresses, and give the first one tokens."""
        evm, helper = service_client.evm, self.helper
        creation = load_artifact("TestMulticall").init
        receipt = await helper.transact(evm, gas=2_000_000, value=0, data=creation)
        self.codes.batch_sender = receipt["contractAddress"].lower()
        place = await helper.deploy(evm, bytes.fromhex(COIN_SENDER))
        self.codes.coin_sender = place.rpartition(":")[2].lower()
        tokens = [token.address for token in DEVNET.tokens]
        gift = {"accounts": [self.codes.batch_sender], "nativeWei": "0x0", "tokens": tokens}
        await evm.ask("florin_faucet", gift)


def _get_vault_key(key: tuple[Way, int]) -> tuple[Way, int]:
    way, buyer = key
    return way, _VAULTS + buyer
