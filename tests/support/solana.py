"""A Solana wallet, made on the spot, and the embedded chain that it pays on."""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import aiohttp
from florin_client.wallet.solana import SolanaKey
from florin_server.chains.solana import spl
from florin_server.config import EmbeddedSolana
from florin_server.devnet.solana import SOLNET
from florin_server.flows.ledger import books
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from tests.support.desk import Desk
from tests.support.until import until

# each transaction is final at once, whatever the clock says, and `confirmed` is refused
AT_ONCE = EmbeddedSolana(slot_s=0, finalized_slots=1, takes_confirmed=False)
ASSETS = tuple(f"{SOLNET.chain_id}/token:{token.address}" for token in SOLNET.tokens)
COIN = f"{SOLNET.chain_id}/slip44:501"
# what any account must hold, in lamports
RENT = 890_880


class SolanaWallet:
    def __init__(self) -> None:
        self.key = Keypair()
        self.address = str(self.key.pubkey())

    @property
    def account(self) -> str:
        """CAIP-10."""
        return f"{SOLNET.chain_id}:{self.address}"

    def execute(self, action: dict[str, Any]) -> str:
        """The output of a solana_signTransaction action: the transaction, signed and not sent."""
        return self.sign(transaction_of(action))

    def execute_all(self, option: dict[str, Any]) -> list[str]:
        return [self.execute(action) for action in option["actions"]]

    def sign(self, transaction: VersionedTransaction) -> str:
        return SolanaKey(bytes(self.key)).signed(transaction)


def transaction_of(action: dict[str, Any]) -> VersionedTransaction:
    assert action["type"] == "walletRpc"
    assert action["data"]["method"] == "solana_signTransaction"
    params = action["data"]["params"]
    (one,) = json.loads(params) if isinstance(params, str) else params
    return VersionedTransaction.from_bytes(base64.b64decode(one["transaction"], validate=True))


def wire(transaction: VersionedTransaction) -> str:
    return base64.b64encode(bytes(transaction)).decode()


def steps(message: MessageV0) -> list[Instruction]:
    """The instructions of a message, as a wallet takes them apart to add its own."""
    keys = message.account_keys
    signers = message.header.num_required_signatures
    return [
        Instruction(
            keys[one.program_id_index],
            bytes(one.data),
            [
                AccountMeta(
                    keys[index],
                    is_signer=index < signers,
                    is_writable=message.is_maybe_writable(index),
                )
                for index in bytes(one.accounts)
            ],
        )
        for one in message.instructions
    ]


def rebuilt(message: MessageV0, instructions: list[Instruction]) -> VersionedTransaction:
    """An unsigned transaction with other instructions, all else as in a message."""
    made = MessageV0.try_compile(
        message.account_keys[0], instructions, [], message.recent_blockhash
    )
    empty = [Signature.default()] * made.header.num_required_signatures
    return VersionedTransaction.populate(made, empty)


class SolanaNode:
    """The embedded chain, asked like any node."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def _told(self, *calls: tuple[str, Sequence[Any]]) -> list[Any]:
        """The answers to one batch, which the chain gives before it answers anything else."""
        questions = [
            {"jsonrpc": "2.0", "id": n, "method": method, "params": list(params)}
            for n, (method, params) in enumerate(calls)
        ]
        async with self._session.post(self._url, json=questions) as answer:
            found: list[Any] = await answer.json()
        return found

    async def ask(self, method: str, *params: Any) -> Any:
        (content,) = await self._told((method, params))
        assert "error" not in content, content["error"]
        return content["result"]

    async def refusal(self, method: str, *params: Any) -> Any:
        """The error of a call."""
        (content,) = await self._told((method, params))
        return content["error"]

    async def fault(self, kind: str, **options: Any) -> Any:
        return await self.ask("florin_fault", {"kind": kind, **options})

    async def balance(self, owner: str, token: int = 0) -> int:
        """What an owner holds of a token; 0 without an account."""
        mint = SOLNET.tokens[token]
        place = spl.associated(
            spl.pubkey(owner), spl.pubkey(mint.address), spl.pubkey(mint.program)
        )
        found = (await self.ask("getAccountInfo", str(place)))["value"]
        if found is None:
            return 0
        held = spl.token_account(base64.b64decode(found["data"][0]))
        assert held is not None
        return held.amount

    async def close_account(self, owner: Keypair, place: str, token: int = 0) -> None:
        """The owner of an empty token account ends it, and keeps its rent."""
        program = spl.pubkey(SOLNET.tokens[token].program)
        accounts = [
            AccountMeta(spl.pubkey(place), is_signer=False, is_writable=True),
            AccountMeta(owner.pubkey(), is_signer=False, is_writable=True),
            AccountMeta(owner.pubkey(), is_signer=True, is_writable=False),
        ]
        payer = Keypair()
        await self.ask("florin_faucet", {"accounts": [str(payer.pubkey())], "tokens": []})
        await self.send([payer, owner], Instruction(program, b"\x09", accounts))

    async def close_out(self, owner: Keypair, place: str, funder: Keypair) -> None:
        """Empties an account of the first token and ends it; somebody with coin pays for that."""
        token, elsewhere = SOLNET.tokens[0], funder.pubkey()
        mint, source = spl.pubkey(token.address), spl.pubkey(place)
        await self.ask("florin_faucet", {"accounts": [str(elsewhere)]})
        moves = spl.transfer_checked(
            spl.TOKEN,
            mint,
            token.decimals,
            owner=owner.pubkey(),
            source=source,
            dest=spl.associated(elsewhere, mint, spl.TOKEN),
            amount=await self.balance(str(owner.pubkey())),
        )
        accounts = [
            AccountMeta(source, is_signer=False, is_writable=True),
            AccountMeta(owner.pubkey(), is_signer=False, is_writable=True),
            AccountMeta(owner.pubkey(), is_signer=True, is_writable=False),
        ]
        await self.send([funder, owner], moves, Instruction(spl.TOKEN, b"\x09", accounts))

    async def spend(
        self, wallet: SolanaWallet, amount: int, *, after: Mapping[str, Any] | None = None
    ) -> None:
        """A wallet sends units of the first token to somebody, by itself.

        It comes right `after` a fault is armed or cleared: nothing else reaches the chain between.
        """
        payer, elsewhere = wallet.key.pubkey(), Keypair().pubkey()
        token = SOLNET.tokens[0]
        mint = spl.pubkey(token.address)
        moves = spl.transfer_checked(
            spl.TOKEN,
            mint,
            token.decimals,
            owner=payer,
            source=spl.associated(payer, mint, spl.TOKEN),
            dest=spl.associated(elsewhere, mint, spl.TOKEN),
            amount=amount,
        )
        opens = spl.create_associated(payer, elsewhere, mint, spl.TOKEN)
        sent = await self.made([wallet.key], opens, moves)
        before = [] if after is None else [("florin_fault", [after])]
        answers = await self._told(*before, ("sendTransaction", [sent, {"encoding": "base64"}]))
        assert not [one for one in answers if "error" in one], answers

    async def send(self, signers: list[Keypair], *instructions: Instruction) -> str:
        """A transaction with a fresh blockhash; the first signer pays its fee."""
        sent = await self.made(signers, *instructions)
        signature: str = await self.ask("sendTransaction", sent, {"encoding": "base64"})
        return signature

    async def made(self, signers: list[Keypair], *instructions: Instruction) -> str:
        """The same, as it is sent."""
        latest = await self.ask("getLatestBlockhash", {"commitment": "processed"})
        blockhash = Hash.from_string(latest["value"]["blockhash"])
        message = MessageV0.try_compile(signers[0].pubkey(), list(instructions), [], blockhash)
        return wire(VersionedTransaction(message, signers))

    async def coin(self, owner: str) -> int:
        return (await self.ask("getBalance", owner))["value"]


def passing(
    desk: Desk, node: SolanaNode, *, slots: int = 2, seconds: float = 10
) -> Callable[[], Awaitable[None]]:
    """Lets so much time and so many slots pass, each time it is called."""

    async def move() -> None:
        desk.clock.advance(seconds)
        if slots:
            await node.fault("slots", slots=slots)

    return move


async def exact(desk: Desk, node: SolanaNode) -> None:
    """Returns once every wallet on the chain holds what is booked, to the lamport."""
    # what was done last is final with the next slot, and looked at with the next tick
    move = passing(desk, node)
    await move()

    async def verdicts() -> set[books.Verdict]:
        found = await books.check(desk.service.app)
        assert list(found.problems) == []
        lines = [one for one in found.comparison.lines if SOLNET.chain_id in one.place[1]]
        return {one.verdict for one in lines}

    await until(verdicts, {books.Verdict.EXACT}, meanwhile=move)


__all__ = [
    "ASSETS",
    "AT_ONCE",
    "COIN",
    "RENT",
    "SolanaNode",
    "SolanaWallet",
    "exact",
    "rebuilt",
    "steps",
    "transaction_of",
    "wire",
]
