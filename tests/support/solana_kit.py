"""What the tests of Solana share: an embedded chain asked like any node, and its wallets."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from florin_server.chains.solana import spl
from florin_server.clock import TestClock
from florin_server.devnet.solana import SOLNET, SolanaDevChain, SolanaDevSettings
from solders.hash import Hash
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction

START_S = 1_800_000_000
TOKEN, TOKEN_2022 = SOLNET.tokens
GIFT = 10_000 * 10**6


class NodeError(Exception):
    def __init__(self, error: dict[str, Any]) -> None:
        self.code, self.message, self.data = error["code"], error["message"], error.get("data")
        super().__init__(f"{self.message} ({self.code})")


@dataclass
class Node:
    chain: SolanaDevChain
    clock: TestClock

    async def ask(self, method: str, *params: Any) -> Any:
        question = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = json.loads(await self.chain.handle(json.dumps(question).encode()))
        if "error" in answer:
            raise NodeError(answer["error"])
        return answer["result"]

    async def value(self, method: str, *params: Any) -> Any:
        return (await self.ask(method, *params))["value"]

    async def fault(self, kind: str, **options: Any) -> Any:
        return await self.ask("florin_fault", {"kind": kind, **options})

    async def fund(self, *wallets: Keypair | Pubkey, **amounts: Any) -> Any:
        keys = [str(one.pubkey() if isinstance(one, Keypair) else one) for one in wallets]
        return await self.ask("florin_faucet", {"accounts": keys, **amounts})

    async def tokens(self, owner: Pubkey, token=TOKEN) -> int:
        """What an owner holds, 0 without an account."""
        found = await self.value("getAccountInfo", str(place(owner, token)))
        if found is None:
            return 0
        held = spl.token_account(base64.b64decode(found["data"][0]))
        assert held is not None
        assert held.owner == owner
        return held.amount

    async def coin(self, owner: Pubkey) -> int:
        return await self.value("getBalance", str(owner))

    async def blockhash(self, commitment: str = "processed") -> Hash:
        value = await self.value("getLatestBlockhash", {"commitment": commitment})
        return Hash.from_string(value["blockhash"])

    async def made(self, signers: list[Keypair], *instructions: Instruction) -> str:
        """A signed transaction in base64, paid by the first signer."""
        message = MessageV0.try_compile(
            signers[0].pubkey(), list(instructions), [], await self.blockhash()
        )
        return base64.b64encode(bytes(VersionedTransaction(message, signers))).decode()

    async def send(self, wire: str, **options: Any) -> str:
        return await self.ask("sendTransaction", wire, {"encoding": "base64", **options})

    async def status(self, signature: str) -> Any:
        return (await self.value("getSignatureStatuses", [signature]))[0]


@asynccontextmanager
async def opened(
    path: Path | None = None, clock: TestClock | None = None, **settings: Any
) -> AsyncIterator[Node]:
    clock = clock or TestClock(START_S * 1_000_000)
    chain = await SolanaDevChain.open(path, SolanaDevSettings(clock=clock, **settings))
    try:
        yield Node(chain, clock)
    finally:
        await chain.close()


def wallet(number: int) -> Keypair:
    """A wallet; the same for each number."""
    return Keypair.from_seed(hashlib.sha256(f"wallet {number}".encode()).digest())


def place(owner: Pubkey, token=TOKEN) -> Pubkey:
    """Where an owner holds a token."""
    return spl.associated(owner, spl.pubkey(token.address), spl.pubkey(token.program))


def coin(sender: Keypair, to: Pubkey, lamports: int) -> Instruction:
    return transfer(TransferParams(from_pubkey=sender.pubkey(), to_pubkey=to, lamports=lamports))


def payment(payer: Keypair, to: Pubkey, amount: int, token=TOKEN) -> list[Instruction]:
    """A token transfer into an account that is made if need be."""
    mint, program = spl.pubkey(token.address), spl.pubkey(token.program)
    return [
        spl.create_associated(payer.pubkey(), to, mint, program),
        spl.transfer_checked(
            program,
            mint,
            token.decimals,
            owner=payer.pubkey(),
            source=place(payer.pubkey(), token),
            dest=place(to, token),
            amount=amount,
        ),
    ]
