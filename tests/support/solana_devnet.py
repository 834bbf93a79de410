"""Shared helpers of Solana's tests: an embedded chain called like any node, and its wallets."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from florin_sandbox.devnet.solana import SOLANA_DEVNET, SolanaDevChain, SolanaDevSettings
from florin_server.base.clock import TestClock
from florin_server.domain.chains.solana import spl
from solders.hash import Hash
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction

START_S = 1_800_000_000
TOKEN, TOKEN_2022 = SOLANA_DEVNET.tokens
GIFT = 10_000 * 10**6


class SolanaNodeError(Exception):
    def __init__(self, error: dict[str, Any]) -> None:
        self.code, self.message, self.data = error["code"], error["message"], error.get("data")
        super().__init__(f"{self.message} ({self.code})")


@dataclass
class SolanaDevnetNode:
    chain: SolanaDevChain
    clock: TestClock

    async def ask(self, method: str, *params: Any) -> Any:
        question = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = json.loads(await self.chain.handle(json.dumps(question).encode()))
        if "error" in answer:
            raise SolanaNodeError(answer["error"])
        return answer["result"]

    async def value(self, method: str, *params: Any) -> Any:
        return (await self.ask(method, *params))["value"]

    async def fault(self, kind: str, **options: Any) -> Any:
        return await self.ask("florin_fault", {"kind": kind, **options})

    async def fund(self, *wallets: Keypair | Pubkey, **amounts: Any) -> Any:
        keys = [
            str(wallet.pubkey() if isinstance(wallet, Keypair) else wallet) for wallet in wallets
        ]
        return await self.ask("florin_faucet", {"accounts": keys, **amounts})

    async def tokens(self, owner: Pubkey, token=TOKEN) -> int:
        """Return an owner's balance, 0 without an account."""
        result = await self.value("getAccountInfo", str(get_token_account(owner, token)))
        if result is None:
            return 0
        held = spl.parse_token_account(base64.b64decode(result["data"][0]))
        assert held is not None
        assert held.owner == owner
        return held.amount

    async def coin(self, owner: Pubkey) -> int:
        return await self.value("getBalance", str(owner))

    async def blockhash(self, commitment: str = "processed") -> Hash:
        value = await self.value("getLatestBlockhash", {"commitment": commitment})
        return Hash.from_string(value["blockhash"])

    async def make_transaction(self, signers: list[Keypair], *instructions: Instruction) -> str:
        """Return a signed transaction in base64, paid by the first signer."""
        message = MessageV0.try_compile(
            signers[0].pubkey(), list(instructions), [], await self.blockhash()
        )
        return base64.b64encode(bytes(VersionedTransaction(message, signers))).decode()

    async def send(self, wire: str, **options: Any) -> str:
        return await self.ask("sendTransaction", wire, {"encoding": "base64", **options})

    async def status(self, signature: str) -> Any:
        return (await self.value("getSignatureStatuses", [signature]))[0]


@asynccontextmanager
async def open_node(
    path: Path | None = None, clock: TestClock | None = None, **settings: Any
) -> AsyncIterator[SolanaDevnetNode]:
    clock = clock or TestClock(START_S * 1_000_000)
    chain = await SolanaDevChain.open(path, SolanaDevSettings(clock=clock, **settings))
    try:
        yield SolanaDevnetNode(chain, clock)
    finally:
        await chain.close()


def make_wallet(number: int) -> Keypair:
    """Return the wallet of a number; always the same one."""
    return Keypair.from_seed(hashlib.sha256(f"wallet {number}".encode()).digest())


def get_token_account(owner: Pubkey, token=TOKEN) -> Pubkey:
    """Return an owner's account of a token."""
    return spl.derive_associated_address(
        owner, spl.parse_pubkey(token.address), spl.parse_pubkey(token.program)
    )


def make_coin_transfer(sender: Keypair, to: Pubkey, lamports: int) -> Instruction:
    return transfer(TransferParams(from_pubkey=sender.pubkey(), to_pubkey=to, lamports=lamports))


def make_payment(payer: Keypair, to: Pubkey, amount: int, token=TOKEN) -> list[Instruction]:
    """Return a token transfer into an account, which it creates if needed."""
    mint, program = spl.parse_pubkey(token.address), spl.parse_pubkey(token.program)
    return [
        spl.create_associated_account(payer.pubkey(), to, mint, program),
        spl.transfer_checked(
            program,
            mint,
            token.decimals,
            owner=payer.pubkey(),
            source=get_token_account(payer.pubkey(), token),
            dest=get_token_account(to, token),
            amount=amount,
        ),
    ]
