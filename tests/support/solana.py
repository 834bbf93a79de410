"""A Solana wallet, created on the spot, and the embedded chain that it pays on."""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import aiohttp
from florin_client.wallet.solana import SolanaKey
from florin_sandbox.devnet.solana import SOLANA_DEVNET
from florin_server.domain.chains.solana import spl
from florin_server.money.ledger.service import books
from florin_server.settings import EmbeddedSolanaSettings
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from tests.support.service_harness import ServiceHarness
from tests.support.until import advance, wait_until

# each transaction is final at once, independent of the clock, and `confirmed` is refused
INSTANT_SOLANA = EmbeddedSolanaSettings(slot_s=0, finalized_slots=1, takes_confirmed=False)
ASSETS = tuple(f"{SOLANA_DEVNET.chain_id}/token:{token.address}" for token in SOLANA_DEVNET.tokens)
COIN = f"{SOLANA_DEVNET.chain_id}/slip44:501"
# the rent-exempt minimum of any account, in lamports
RENT = 890_880


class SolanaTestWallet:
    def __init__(self) -> None:
        self.key = Keypair()
        self.address = str(self.key.pubkey())

    @property
    def account(self) -> str:
        """Return the account as CAIP-10."""
        return f"{SOLANA_DEVNET.chain_id}:{self.address}"

    def execute(self, action: dict[str, Any]) -> str:
        """Return the output of a solana_signTransaction action: the signed, unsent transaction."""
        return self.sign(get_transaction(action))

    def execute_all(self, option: dict[str, Any]) -> list[str]:
        return [self.execute(action) for action in option["actions"]]

    def sign(self, transaction: VersionedTransaction) -> str:
        return SolanaKey(bytes(self.key)).sign_transaction(transaction)


def get_transaction(action: dict[str, Any]) -> VersionedTransaction:
    assert action["type"] == "walletRpc"
    assert action["data"]["method"] == "solana_signTransaction"
    params = action["data"]["params"]
    (item,) = json.loads(params) if isinstance(params, str) else params
    return VersionedTransaction.from_bytes(base64.b64decode(item["transaction"], validate=True))


def encode_transaction(transaction: VersionedTransaction) -> str:
    return base64.b64encode(bytes(transaction)).decode()


def list_instructions(message: MessageV0) -> list[Instruction]:
    """Return the instructions of a message, as a wallet parses them to add its own."""
    keys = message.account_keys
    signers = message.header.num_required_signatures
    return [
        Instruction(
            keys[compiled_instruction.program_id_index],
            bytes(compiled_instruction.data),
            [
                AccountMeta(
                    keys[index],
                    is_signer=index < signers,
                    is_writable=message.is_maybe_writable(index),
                )
                for index in bytes(compiled_instruction.accounts)
            ],
        )
        for compiled_instruction in message.instructions
    ]


def rebuild_transaction(
    message: MessageV0, instructions: list[Instruction]
) -> VersionedTransaction:
    """Return an unsigned transaction with other instructions, all else as in a message."""
    message_v0 = MessageV0.try_compile(
        message.account_keys[0], instructions, [], message.recent_blockhash
    )
    empty = [Signature.default()] * message_v0.header.num_required_signatures
    return VersionedTransaction.populate(message_v0, empty)


class SolanaNodeClient:
    """The embedded chain, called like any node."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def _call_batch(self, *calls: tuple[str, Sequence[Any]]) -> list[Any]:
        """Return the answers to one batch, which the chain answers as a whole."""
        questions = [
            {"jsonrpc": "2.0", "id": n, "method": method, "params": list(params)}
            for n, (method, params) in enumerate(calls)
        ]
        async with self._session.post(self._url, json=questions) as answer:
            results: list[Any] = await answer.json()
        return results

    async def ask(self, method: str, *params: Any) -> Any:
        (content,) = await self._call_batch((method, params))
        assert "error" not in content, content["error"]
        return content["result"]

    async def refusal(self, method: str, *params: Any) -> Any:
        """Return the error of a call."""
        (content,) = await self._call_batch((method, params))
        return content["error"]

    async def fault(self, kind: str, **options: Any) -> Any:
        return await self.ask("florin_fault", {"kind": kind, **options})

    async def balance(self, owner: str, token: int = 0) -> int:
        """Return an owner's balance of a token; 0 without an account."""
        mint = SOLANA_DEVNET.tokens[token]
        place = spl.derive_associated_address(
            spl.parse_pubkey(owner), spl.parse_pubkey(mint.address), spl.parse_pubkey(mint.program)
        )
        result = (await self.ask("getAccountInfo", str(place)))["value"]
        if result is None:
            return 0
        held = spl.parse_token_account(base64.b64decode(result["data"][0]))
        assert held is not None
        return held.amount

    async def close_account(self, owner: Keypair, place: str, token: int = 0) -> None:
        """Close an empty token account; the owner keeps its rent."""
        program = spl.parse_pubkey(SOLANA_DEVNET.tokens[token].program)
        accounts = [
            AccountMeta(spl.parse_pubkey(place), is_signer=False, is_writable=True),
            AccountMeta(owner.pubkey(), is_signer=False, is_writable=True),
            AccountMeta(owner.pubkey(), is_signer=True, is_writable=False),
        ]
        payer = Keypair()
        await self.ask("florin_faucet", {"accounts": [str(payer.pubkey())], "tokens": []})
        await self.send([payer, owner], Instruction(program, b"\x09", accounts))

    async def close_out(self, owner: Keypair, place: str, funder: Keypair) -> None:
        """Empty an account of the first token and close it; a funder with coin pays for that."""
        token, elsewhere = SOLANA_DEVNET.tokens[0], funder.pubkey()
        mint, source = spl.parse_pubkey(token.address), spl.parse_pubkey(place)
        await self.ask("florin_faucet", {"accounts": [str(elsewhere)]})
        moves = spl.transfer_checked(
            spl.TOKEN,
            mint,
            token.decimals,
            owner=owner.pubkey(),
            source=source,
            dest=spl.derive_associated_address(elsewhere, mint, spl.TOKEN),
            amount=await self.balance(str(owner.pubkey())),
        )
        accounts = [
            AccountMeta(source, is_signer=False, is_writable=True),
            AccountMeta(owner.pubkey(), is_signer=False, is_writable=True),
            AccountMeta(owner.pubkey(), is_signer=True, is_writable=False),
        ]
        await self.send([funder, owner], moves, Instruction(spl.TOKEN, b"\x09", accounts))

    async def spend(
        self, wallet: SolanaTestWallet, amount: int, *, after: Mapping[str, Any] | None = None
    ) -> None:
        """Send units of the first token from a wallet, without Florin.

        It comes right `after` a fault is armed or cleared: nothing else reaches the chain between.
        """
        payer, elsewhere = wallet.key.pubkey(), Keypair().pubkey()
        token = SOLANA_DEVNET.tokens[0]
        mint = spl.parse_pubkey(token.address)
        moves = spl.transfer_checked(
            spl.TOKEN,
            mint,
            token.decimals,
            owner=payer,
            source=spl.derive_associated_address(payer, mint, spl.TOKEN),
            dest=spl.derive_associated_address(elsewhere, mint, spl.TOKEN),
            amount=amount,
        )
        opens = spl.create_associated_account(payer, elsewhere, mint, spl.TOKEN)
        sent = await self.make_transaction([wallet.key], opens, moves)
        before = [] if after is None else [("florin_fault", [after])]
        answers = await self._call_batch(
            *before, ("sendTransaction", [sent, {"encoding": "base64"}])
        )
        assert not [answer for answer in answers if "error" in answer], answers

    async def send(self, signers: list[Keypair], *instructions: Instruction) -> str:
        """Send a transaction with a fresh blockhash; the first signer pays its fee."""
        sent = await self.make_transaction(signers, *instructions)
        signature: str = await self.ask("sendTransaction", sent, {"encoding": "base64"})
        return signature

    async def make_transaction(self, signers: list[Keypair], *instructions: Instruction) -> str:
        """Return the transaction in the form in which it is sent."""
        latest = await self.ask("getLatestBlockhash", {"commitment": "processed"})
        blockhash = Hash.from_string(latest["value"]["blockhash"])
        message = MessageV0.try_compile(signers[0].pubkey(), list(instructions), [], blockhash)
        return encode_transaction(VersionedTransaction(message, signers))

    async def coin(self, owner: str) -> int:
        return (await self.ask("getBalance", owner))["value"]


def make_time_step(
    desk: ServiceHarness, node: SolanaNodeClient, *, slots: int = 2, seconds: float = 10
) -> Callable[[], Awaitable[None]]:
    """Return a function that advances time and slots on each call."""

    async def move() -> None:
        await advance(desk.clock, seconds)
        if slots:
            await node.fault("slots", slots=slots)

    return move


async def wait_exact(desk: ServiceHarness, node: SolanaNodeClient) -> None:
    """Return once every wallet on the chain has the booked amount, to the lamport."""
    # the last transaction is final with the next slot, and seen with the next tick
    move = make_time_step(desk, node)
    await move()

    async def verdicts() -> set[books.ReconciliationStatus]:
        check = await books.check(desk.service.app)
        assert list(check.problems) == []
        lines = [
            line for line in check.reconciliation.lines if SOLANA_DEVNET.chain_id in line.wallet[1]
        ]
        return {line.status for line in lines}

    await wait_until(verdicts, {books.ReconciliationStatus.EXACT}, meanwhile=move)


__all__ = [
    "ASSETS",
    "COIN",
    "INSTANT_SOLANA",
    "RENT",
    "SolanaNodeClient",
    "SolanaTestWallet",
    "encode_transaction",
    "get_transaction",
    "list_instructions",
    "rebuild_transaction",
    "wait_exact",
]
