"""How transactions come in: checked, tried out, and executed or kept waiting."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction

from florin_server.chains.solana import spl
from florin_server.devnet.errors import RpcFault
from florin_server.devnet.gifts import Gift, Gifts, Kind
from florin_server.devnet.solana import params
from florin_server.devnet.solana.genesis import SOLNET
from florin_server.devnet.solana.history import History
from florin_server.devnet.solana.machine import Machine
from florin_server.devnet.solana.slots import Slots

AIRDROP_MAX: Final = 10_000 * spl.LAMPORTS_PER_SOL
COIN: Final = Kind("lamports", spl.LAMPORTS_PER_SOL, AIRDROP_MAX)
WAITING_MAX: Final = 10_000


class Sending:
    """The way of transactions into the chain; while `paused` they wait, and may lapse."""

    OPTIONS: Final = (
        "encoding",
        "skipPreflight",
        "preflightCommitment",
        "maxRetries",
        "minContextSlot",
    )

    def __init__(self, history: History, slots: Slots, machine: Machine, gifts: Gifts) -> None:
        self._history = history
        self._slots = slots
        self._machine = machine
        self._gifts = gifts
        self._waiting: OrderedDict[bytes, VersionedTransaction] = OrderedDict()
        self.faucet = Keypair.from_seed(SOLNET.faucet_seed)
        self.paused = False

    def send(self, given: Any, config: Any = None) -> str:
        """Takes a transaction and answers its first signature; that it lands is not promised."""
        options = params.fields(config, self.OPTIONS)
        self._slots.at(params.commitment(options, "preflightCommitment"))
        transaction = self.parse(given, options)
        if not all(transaction.verify_with_results()):
            raise RpcFault("Transaction signature verification failure", -32003)
        signature = transaction.signatures[0]
        if not params.flag(options.get("skipPreflight", False)):
            self._preflight(transaction)
        if self.paused:
            if len(self._waiting) >= WAITING_MAX:
                raise RpcFault("Node is behind by 1000 slots", -32005)
            self._waiting[bytes(signature)] = transaction
        else:
            self._land(transaction)
        return str(signature)

    def parse(self, given: Any, options: Mapping[str, Any]) -> VersionedTransaction:
        """Parse a transaction in the encoding that the options of its call name."""
        encoding = params.encoding_of(options, ("base58", "base64"), "base58")
        return params.transaction(given, encoding)

    def resume(self) -> None:
        """Ends a pause; what waited lands now, unless its blockhash has lapsed."""
        self.paused = False
        while self._waiting:
            self._land(self._waiting.popitem(last=False)[1])

    def may_give(self, gifts: Sequence[Gift]) -> None:
        """Takes gifts out of the faucet's budgets; RpcFault if that is too much."""
        self._gifts.take(gifts)

    def give(self, instructions: list[Any]) -> str:
        """Executes instructions of the faucet at once; RpcFault if they fail."""
        # two equal gifts within a slot are two transactions
        instructions = [*instructions, spl.memo(f"faucet {secrets.token_hex(8)}")]
        blockhash = self._slots.blockhash(self._slots.slot)
        message = MessageV0.try_compile(self.faucet.pubkey(), instructions, [], blockhash)
        landed = self._machine.execute(VersionedTransaction(message, [self.faucet]))
        if landed is None or landed.error is not None:
            raise RpcFault(f"the faucet failed: {landed.error if landed else 'no fee'}")
        return params.base58(landed.signature)

    def airdrop(self, address: Any, lamports: Any, config: Any = None) -> str:
        """Gives coin away."""
        given = params.fields(config, ("commitment", "recentBlockhash"))
        self._slots.at(params.commitment(given))
        amount, to = params.number(lamports, 1, AIRDROP_MAX), params.pubkey(address)
        found = self._machine.account(to)
        self.may_give([Gift(COIN, amount + (found.lamports if found else 0), amount)])
        return self.give([self.coin(to, amount)])

    def coin(self, to: Pubkey, lamports: int) -> Any:
        """The faucet's instruction to give coin."""
        wanted = TransferParams(from_pubkey=self.faucet.pubkey(), to_pubkey=to, lamports=lamports)
        return transfer(wanted)

    def _preflight(self, transaction: VersionedTransaction) -> None:
        if self._known(transaction):
            raise _failed("This transaction has already been processed", "AlreadyProcessed")
        if not self._machine.is_current(transaction.message):
            raise _failed("Blockhash not found", "BlockhashNotFound")
        outcome = self._machine.simulate(transaction)
        if outcome.error is not None:
            raise _failed(
                f"Error processing transaction: {outcome.error}",
                outcome.error,
                list(outcome.logs),
                outcome.units,
            )

    def _land(self, transaction: VersionedTransaction) -> None:
        lapsed = not self._machine.is_current(transaction.message)
        if not lapsed and not self._known(transaction):
            self._machine.execute(transaction)

    def _known(self, transaction: VersionedTransaction) -> bool:
        return self._history.transaction(bytes(transaction.signatures[0])) is not None


def _failed(message: str, error: Any, logs: list[str] | None = None, units: int = 0) -> RpcFault:
    data = {"err": error, "logs": logs or [], "accounts": None, "unitsConsumed": units}
    return RpcFault(f"Transaction simulation failed: {message}", -32002, data)
