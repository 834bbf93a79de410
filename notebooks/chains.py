"""Read the embedded chains of a state folder independently: transfers, fees and balances.

The chains are read by JSON-RPC, like any node. The reads use copies of the folder's files: nothing
in it changes, and nothing depends on the ledger.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
from florin_sandbox.devnet.evm import EvmDevChain, EvmDevSettings
from florin_sandbox.devnet.solana import SolanaDevChain, SolanaDevSettings
from florin_sandbox.simulation.audit.blocks import (
    ZERO_ADDRESS,
    compute_gas_cost,
    list_payment_events,
)
from florin_sandbox.simulation.nodes import SandboxNode
from florin_server.app.home import StateFolder
from target import LabError

_BATCH = 500
_TRANSFER = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"


@dataclass
class Transaction:
    """The transfers of a transaction, by account (CAIP-10) and asset (CAIP-19), without its fee.

    Minor units: above zero for receivers. `payer` paid the `fee`, in the chain's native coin, and
    the `rent` that stays in accounts which the transaction opened.
    """

    hash: str
    at: pd.Timestamp
    payer: str
    fee: int
    rent: int = 0
    moved: Counter[tuple[str, str]] = field(default_factory=Counter)


class Chain(ABC):
    """One chain. `coin` is its native coin as an asset."""

    def __init__(self, chain_id: str, coin: str, node: SandboxNode) -> None:
        self.id = chain_id
        self.coin = f"{chain_id}/{coin}"
        self._node = node

    @abstractmethod
    async def transactions(self, wallets: Iterable[str], more: Iterable[str]) -> list[Transaction]:
        """Return the transactions that touched one of these accounts, and `more` by hash."""

    @abstractmethod
    async def holds(self, account: str, asset: str) -> int:
        """Return the minor units of an asset that an account holds now."""

    async def _all(self, method: str, calls: list[tuple[Any, ...]]) -> list[Any]:
        results = []
        for n in range(0, len(calls), _BATCH):
            results += await self._node.call_batch(
                [(method, params) for params in calls[n : n + _BATCH]]
            )
            # let the notebook's own loop run meanwhile
            await asyncio.sleep(0)
        return results


class EvmChain(Chain):
    """Every transaction from the first block on; tokens by their Transfer events."""

    async def transactions(self, wallets: Iterable[str], more: Iterable[str]) -> list[Transaction]:
        """Read all blocks: a node has no list of an account's transactions."""
        ours, named = set(wallets), set(more)
        head = int(await self._node.call("eth_blockNumber"), 16)
        blocks = await self._all("eth_getBlockByNumber", [(hex(n), True) for n in range(head + 1)])
        sent = [(raw, block) for block in blocks for raw in block["transactions"]]
        receipts = await self._all("eth_getTransactionReceipt", [(raw["hash"],) for raw, _ in sent])
        transactions = [
            self._read_transaction(raw, block, receipt)
            for (raw, block), receipt in zip(sent, receipts, strict=True)
        ]
        return [
            transaction
            for transaction in transactions
            if transaction.hash in named
            or ours & {transaction.payer, *(account for account, _ in transaction.moved)}
        ]

    async def holds(self, account: str, asset: str) -> int:
        """Read the balance from the newest block."""
        address = account.rpartition(":")[2]
        if asset == self.coin:
            return int(await self._node.call("eth_getBalance", address, "latest"), 16)
        call = {"to": asset.rpartition(":")[2], "data": "0x70a08231" + address[2:].rjust(64, "0")}
        return int(await self._node.call("eth_call", call, "latest"), 16)

    def _read_transaction(self, raw: Any, block: Any, receipt: Any) -> Transaction:
        payer = f"{self.id}:{raw['from'].lower()}"
        at = pd.Timestamp(int(block["timestamp"], 16), unit="s", tz="UTC")
        transaction = Transaction(raw["hash"], at, payer, compute_gas_cost(receipt))
        if receipt["status"] != "0x1":
            return transaction
        coins = [event for event in list_payment_events(receipt) if event["token"] == ZERO_ADDRESS]
        for event in coins:
            self._give(
                transaction, self.coin, event["payer"], event["dest"], event["value"] - event["fee"]
            )
            self._give(transaction, self.coin, event["payer"], event["fee_to"], event["fee"])
        if not coins and raw["to"]:
            self._give(transaction, self.coin, raw["from"], raw["to"], int(raw["value"], 16))
        for log in receipt["logs"]:
            if log["topics"][0] == _TRANSFER and len(log["topics"]) == 3:
                giver, receiver = ("0x" + topic[-40:] for topic in log["topics"][1:])
                token = f"{self.id}/erc20:{log['address'].lower()}"
                self._give(transaction, token, giver, receiver, int(log["data"], 16))
        return transaction

    def _give(
        self, transaction: Transaction, asset: str, giver: str, receiver: str, amount: int
    ) -> None:
        transaction.moved[f"{self.id}:{giver.lower()}", asset] -= amount
        transaction.moved[f"{self.id}:{receiver.lower()}", asset] += amount


class SolanaChain(Chain):
    """Transactions with the balances of their accounts before and after."""

    async def transactions(self, wallets: Iterable[str], more: Iterable[str]) -> list[Transaction]:
        """Return the transactions of a wallet or its token accounts, and those with the hashes."""
        hashes = dict.fromkeys(more)
        for wallet in wallets:
            owner = wallet.rpartition(":")[2]
            for address in (
                owner,
                *[token_account["pubkey"] for token_account in await self._accounts(owner)],
            ):
                hashes |= dict.fromkeys(await self._signatures(address))
        how = {"maxSupportedTransactionVersion": 0, "commitment": "finalized"}
        landed = await self._all("getTransaction", [(signature, how) for signature in hashes])
        return [
            self._read_transaction(signature, raw)
            for signature, raw in zip(hashes, landed, strict=True)
            if raw
        ]

    async def holds(self, account: str, asset: str) -> int:
        """Read the balance from the newest slot."""
        owner = account.rpartition(":")[2]
        if asset == self.coin:
            return int((await self._node.call("getBalance", owner))["value"])
        holdings = [
            token_account["account"]["data"]["parsed"]["info"]
            for token_account in await self._accounts(owner)
        ]
        mint = asset.rpartition(":")[2]
        return sum(
            int(holding["tokenAmount"]["amount"]) for holding in holdings if holding["mint"] == mint
        )

    async def _accounts(self, owner: str) -> list[Any]:
        programs = (
            "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA",
            "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb",
        )
        calls = [
            (owner, {"programId": program}, {"encoding": "jsonParsed"}) for program in programs
        ]
        pages = await self._all("getTokenAccountsByOwner", calls)
        return [token_account for page in pages for token_account in page["value"]]

    async def _signatures(self, address: str) -> list[str]:
        signatures: list[str] = []
        while True:
            before = {"before": signatures[-1]} if signatures else {}
            page = await self._node.call("getSignaturesForAddress", address, before)
            if not page:
                return signatures
            signatures += [row["signature"] for row in page]

    def _read_transaction(self, signature: str, raw: Any) -> Transaction:
        meta, keys = raw["meta"], raw["transaction"]["message"]["accountKeys"]
        at = pd.Timestamp(raw["blockTime"], unit="s", tz="UTC")
        transaction = Transaction(signature, at, f"{self.id}:{keys[0]}", meta["fee"])
        for key, before, after in zip(keys, meta["preBalances"], meta["postBalances"], strict=True):
            transaction.moved[f"{self.id}:{key}", self.coin] += after - before
            if not (before and after):
                transaction.rent += after - before
        transaction.moved[transaction.payer, self.coin] += transaction.fee
        for sign, when in ((-1, "preTokenBalances"), (1, "postTokenBalances")):
            for balance in meta[when]:
                place = f"{self.id}:{balance['owner']}", f"{self.id}/token:{balance['mint']}"
                transaction.moved[place] += sign * int(balance["uiTokenAmount"]["amount"])
        return transaction


def _copy(folder: Path, to: Path) -> None:
    for name in ("evm.db*", "solana.db*"):
        for file in folder.glob(name):
            shutil.copy(file, to)


@asynccontextmanager
async def resting(folder: Path | None) -> AsyncIterator[Mapping[str, Chain]]:
    """Yield the embedded chains of a state folder, by CAIP-2 id, as Florin left them.

    Raise LabError if Florin runs there, or if the folder does not exist.
    """
    if folder is None:
        raise LabError("the chains are read from a state folder: set FLORIN_TARGET to one")
    home = StateFolder(folder)
    if home.find_addresses() is not None:
        raise LabError(f"Florin runs with its state in {folder}: stop it, or use a copy")
    async with AsyncExitStack() as stack:
        copy = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        _copy(folder, copy)
        env, chains = home.read_demo_env(), {}
        if (copy / "evm.db").exists():
            chain_id = env["FLORIN_EVM_CHAIN"]
            number = int(chain_id.partition(":")[2])
            evm = await EvmDevChain.open(copy / "evm.db", EvmDevSettings(chain_id=number))
            stack.push_async_callback(evm.close)
            chains[chain_id] = EvmChain(chain_id, "slip44:60", SandboxNode(evm.handle))
        if (copy / "solana.db").exists():
            chain_id = env["FLORIN_SOLANA_CHAIN"]
            # no new blocks come, so existing blocks are final
            resting_there = SolanaDevSettings(confirmed_slots=0, finalized_slots=0)
            solana = await SolanaDevChain.open(copy / "solana.db", resting_there)
            stack.push_async_callback(solana.close)
            chains[chain_id] = SolanaChain(chain_id, "slip44:501", SandboxNode(solana.handle))
        yield chains
