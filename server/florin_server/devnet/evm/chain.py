"""The chain itself: pool, blocks, execution, rewinding. Used by one thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson
import rlp
from eth.abc import SignedTransactionAPI
from eth.constants import BLANK_ROOT_HASH
from eth.exceptions import PyEVMError
from eth.vm.execution_context import ExecutionContext
from eth.vm.forks.prague import PragueVM
from eth.vm.message import Message
from eth_hash.auto import keccak
from eth_keys.exceptions import BadSignature
from eth_typing import Address, BlockNumber, Hash32
from eth_utils.exceptions import ValidationError

from florin_server.devnet.errors import DevChainError, RpcFault
from florin_server.devnet.evm.block_rules import BlockRules
from florin_server.devnet.evm.history import Block, History, Mined
from florin_server.devnet.evm.pool import Pool, Waiting
from florin_server.devnet.evm.schedule import GasSchedule
from florin_server.devnet.evm.state import Cell, DevState, FlatState, Value
from florin_server.devnet.evm.system_transactions import (
    SYSTEM_GAS,
    system_hashes,
    system_transactions,
)
from florin_server.devnet.evm.token_fees import MANAGER_CODE, UNIT_WEI, TokenFees
from florin_server.devnet.evm.views import (
    COINBASE,
    GAS_LIMIT,
    MIX_HASH,
    Outcome,
    logs_bloom,
    receipt_view,
    transaction_view,
)
from florin_server.devnet.genesis import DEVNET, FAUCET_WEI, artifact

KEPT_STATES: Final = 128  # as geth: older states are pruned, deeper reorgs impossible
GWEI: Final = 10**9

_ANCESTORS: Final = 256  # what BLOCKHASH may ask for
_FORMAT: Final = b"1"
_CONTRACTS: Final = (
    "PaySettler",
    "TestDollar",
    "TestEuro",
    "Opener",
    "DevWalletFactory",
    "DevPermit2",
)
_UNDECODABLE: Final = (
    PyEVMError,
    ValidationError,
    BadSignature,
    rlp.RLPException,
    ValueError,
    TypeError,
)


@dataclass(frozen=True, slots=True)
class Moment:
    """The state after a block, seen by code at a block number and a time."""

    block: Block
    number: int
    time: int  # Unix seconds


class Chain:
    """All of one chain. `now` tells Unix seconds, `code` what more the first block holds.

    With `fees` it has no coin but what its faucet was given, and charges gas in a token.
    """

    def __init__(  # noqa: PLR0917  (one of each, none alike)
        self,
        history: History,
        chain_id: int,
        seed: int,
        now: Callable[[], int],
        code: Mapping[str, bytes],
        schedule: GasSchedule | None = None,
        fees: TokenFees | None = None,
        rules: BlockRules | None = None,
    ) -> None:
        self.fees = fees
        self.schedule = schedule or GasSchedule()
        self.rules = rules or BlockRules()
        self.history = history
        self.chain_id = chain_id
        self.now = now
        self.pool = Pool()
        self.base_fee = GWEI
        self.last_busy = 0  # the newest block with a transaction
        self.last_busy_s = now()  # its time, in Unix seconds
        self.reverting = 0  # how many transactions are to fail from now on
        self._builder = PragueVM.get_transaction_builder()
        self._vm = DevState(None, _context(chain_id, 0, 0, GWEI, ()), BLANK_ROOT_HASH)  # type: ignore[arg-type]
        self._vm.schedule = self.schedule
        self._vm.fees = fees
        self._branches = 0
        self._pinned: int | None = None
        self._check_origin(seed, code)
        head = history.head()
        if head is None:
            self._undo: dict[int, dict[Cell, Value | None]] = {}
            self._hashes: deque[bytes] = deque(maxlen=_ANCESTORS)
            self._genesis(seed, code)
            return
        self.head = head
        self.last_busy, self.last_busy_s = head.number, head.time
        self.base_fee = head.base_fee
        self.state.cells = history.cells()
        oldest = max(1, head.number - KEPT_STATES + 1)
        undo = history.undo(oldest - 1)  # an empty block has nothing to tell
        self._undo = {number: undo.get(number, {}) for number in range(oldest, head.number + 1)}
        self._hashes = deque(history.hashes(head.number - _ANCESTORS), maxlen=_ANCESTORS)
        self._branches = int.from_bytes(history.meta("branches") or b"")

    @property
    def state(self) -> FlatState:
        """The state after the newest block; callers only read it."""
        return self._vm.flat

    # ---- the first block

    def _check_origin(self, seed: int, more: Mapping[str, bytes]) -> None:
        """A file goes on only with what it began with."""
        codes = [artifact(name).bytecode for name in _CONTRACTS]
        placed = [part for place, code in more.items() for part in (place.encode(), code)]
        if self.fees is not None:
            placed += [self.fees.token.encode(), self.fees.manager.encode()]
        origin = _FORMAT + keccak(rlp.encode([self.chain_id, seed, *codes, *placed]))
        found = self.history.meta("origin")
        if found is None:
            self.history.set_meta("origin", origin)
        elif found != origin:
            raise DevChainError(
                "the stored chain began with another chain id, seed or contracts: "
                "delete its file to begin a new one"
            )

    def _genesis(self, seed: int, more: Mapping[str, bytes]) -> None:
        faucet = bytes.fromhex(DEVNET.faucet[2:])
        time = self.now()
        self._vm.execution_context = _context(self.chain_id, 0, time, self.base_fee, ())
        if self.fees is None:
            self.state.set_balance(Address(faucet), FAUCET_WEI)
        self._create(faucet, artifact("PaySettler").bytecode, DEVNET.settler)
        owner = faucet.rjust(32, b"\0")
        self._create(faucet, artifact("TestDollar").bytecode + owner, DEVNET.token.address)
        self._create(faucet, artifact("TestEuro").bytecode + owner, DEVNET.euro.address)
        self._create(faucet, artifact("Opener").bytecode, DEVNET.opener)
        self._create(faucet, artifact("DevWalletFactory").bytecode, DEVNET.wallet_factory)
        permit2 = bytes.fromhex(DEVNET.permit2[2:])
        self.state.set_code(Address(permit2), artifact("DevPermit2").runtime)
        for place, code in more.items():
            self.state.set_code(Address(bytes.fromhex(place[2:])), code)
        if self.fees is not None:
            self.state.set_code(Address(bytes.fromhex(self.fees.manager[2:])), MANAGER_CODE)
            self.fees.give(self.state, faucet, FAUCET_WEI // UNIT_WEI)
        self.state.seal_transaction()
        self._seal([], time, parent=bytes(32), number=0, salt=seed.to_bytes(8, "big"))

    def _create(self, sender: bytes, code: bytes, expected: str) -> None:
        nonce = self.state.get_nonce(Address(sender))
        place = keccak(rlp.encode([sender, nonce]))[12:]
        if place.hex() != expected[2:]:
            raise DevChainError(f"a contract of the first block would be at 0x{place.hex()}")
        self.state.increment_nonce(Address(sender))
        message = Message(
            gas=GAS_LIMIT,
            to=Address(b""),
            sender=Address(sender),
            value=0,
            data=b"",
            code=code,
            create_address=Address(place),
        )
        context = self._vm.get_transaction_context_class()(gas_price=0, origin=Address(sender))
        made = self._vm.computation_class.apply_create_message(self._vm, message, context)
        made.raise_if_error()

    # ---- transactions

    def decode(self, raw: bytes) -> SignedTransactionAPI:
        """A signed transaction of this chain, or geth's reason for refusing it."""
        if raw[:1] == b"\x03":
            raise RpcFault("transaction type not supported")
        try:
            fields = self._builder.decode(raw)
            sender = fields.sender
        except _UNDECODABLE as error:
            raise RpcFault(f"rlp: {error}") from error
        if fields.chain_id is None:
            raise RpcFault("only replay-protected (EIP-155) transactions allowed over RPC")
        if fields.chain_id != self.chain_id:
            raise RpcFault(
                "invalid sender: invalid chain id for signer: "
                f"have {fields.chain_id} want {self.chain_id}"
            )
        if self.fees is not None and fields.value:
            raise RpcFault("transactions cannot carry value: the chain has no coin")
        _check_fields(fields, self.schedule)
        try:
            fields.validate()
        except (ValidationError, PyEVMError) as error:
            raise RpcFault(str(error)) from error
        if self.state.get_code(sender) and not self.state.get_code(sender).startswith(b"\xef\x01"):
            raise RpcFault("sender not an eoa")
        return fields

    def submit(self, raw: bytes) -> Waiting:
        """Puts a transaction into the pool."""
        fields = self.decode(raw)
        return self.pool.add(fields, raw, self.state, self.held(fields.sender))

    def held(self, account: bytes) -> int:
        """What an account can pay gas with after the newest block, in wei."""
        if self.fees is not None:
            return self.fees.held(self.state, account)
        return self.state.get_balance(Address(account))

    # ---- blocks

    def mine(self, only: bytes | None = None, *, empty: bool = False) -> Block:
        """Seals the next block, of one sender's transactions if `only`, of none if `empty`.

        Those of one sender are spared from failing on purpose.
        """
        time = max(self.rules.timestamp(self.now()), self.head.time)
        number = self.head.number + 1
        self._vm.execution_context = self._context_at(number, time)
        done: list[tuple[Waiting, Outcome]] = []
        room = GAS_LIMIT
        candidates = () if empty else self.pool.candidates(self.state, self.base_fee, only)
        for waiting in candidates:
            if waiting.transaction.gas > room:
                continue
            try:
                fails = only is None and self.reverting > 0
                outcome = self._execute(waiting.transaction, fails=fails)
            except ValidationError:
                self.state.forget()
                self.pool.remove(waiting)  # it cannot pay for itself any more
                continue
            except BaseException:
                # a fault of the machine: nothing of this block may stay
                self.state.forget()
                self.state.reset(self.state.take_undo())
                self.pool.remove(waiting)
                raise
            self.reverting -= fails
            room -= outcome.gas_used
            done.append((waiting, outcome))
        block = self._seal(done, time, parent=self.head.hash, number=number, salt=self._salt())
        for waiting, _ in done:
            self.pool.remove(waiting)
        return block

    def _execute(self, fields: SignedTransactionAPI, *, fails: bool = False) -> Outcome:
        taken = self._take_fee(fields)
        apply = self._vm.apply_reverting if fails else self._vm.apply_transaction
        computation = apply(fields)
        created = computation.msg.storage_address if computation.msg.is_create else None
        outcome = Outcome(
            success=computation.is_success,
            gas_used=PragueVM.finalize_gas_used(fields, computation),
            price=self._vm.get_gas_price(fields),
            created=created,
            logs=computation.get_log_entries() if computation.is_success else (),
        )
        if self.fees is not None:
            cost = outcome.gas_used * outcome.price
            fee = self.fees.settle(self.state, fields.sender, taken, cost)
            outcome = replace(outcome, logs=(*outcome.logs, fee))
            for one in (fields.sender, Address(COINBASE)):
                self.state.set_balance(one, 0)
        self.state.seal_transaction()
        return outcome

    def _take_fee(self, fields: SignedTransactionAPI) -> int:
        """Take the most that a transaction may cost in the fee token; return the units.

        The machine charges the coin: the sender has as much of it while the transaction runs.
        """
        if self.fees is None:
            return 0
        most = fields.gas * fields.max_fee_per_gas
        if self.held(fields.sender) < most:
            raise ValidationError("the sender cannot pay the fee")
        self.state.set_balance(fields.sender, most)
        return self.fees.take(
            self.state, fields.sender, fields.gas * self._vm.get_gas_price(fields)
        )

    def _seal(
        self,
        done: Sequence[tuple[Waiting, Outcome]],
        time: int,
        *,
        parent: bytes,
        number: int,
        salt: bytes,
    ) -> Block:
        hashes = system_hashes(self.rules.system_transactions, number, parent)
        hashes += [waiting.hash for waiting, _ in done]
        content = [self.chain_id, number, time, parent, self.base_fee, salt, hashes]
        block = Block(
            number=number,
            hash=keccak(rlp.encode(content)),
            parent=parent,
            time=time,
            base_fee=self.base_fee,
            gas_used=self._system_gas + sum(outcome.gas_used for _, outcome in done),
            bloom=logs_bloom(log for _, outcome in done for log in outcome.logs),
        )
        undo = self.state.take_undo()
        self.history.append(block, list(self._mined(block, done)), undo, self.state.cells)
        self._undo[number] = undo
        self._hashes.append(block.hash)
        self.head = block
        if done:
            self.last_busy, self.last_busy_s = number, time
        self._prune()
        return block

    def _mined(self, block: Block, done: Sequence[tuple[Waiting, Outcome]]) -> Iterator[Mined]:
        first = self.rules.system_transactions
        yield from system_transactions(first, block, self.chain_id)
        gas, logs = self._system_gas, 0
        for position, (waiting, outcome) in enumerate(done, first):
            fields = waiting.transaction
            receipt = receipt_view(
                fields, block, position, outcome, gas_before=gas, logs_before=logs
            )
            body = transaction_view(fields, self.chain_id, block, position)
            yield Mined(waiting.hash, waiting.raw, orjson.dumps(body), orjson.dumps(receipt))
            gas += outcome.gas_used
            logs += len(outcome.logs)

    @property
    def _system_gas(self) -> int:
        return SYSTEM_GAS * self.rules.system_transactions

    def _prune(self) -> None:
        gone = self.head.number - KEPT_STATES
        if self._pinned is not None:
            gone = min(gone, self._pinned)
        while self._undo and (oldest := next(iter(self._undo))) <= gone:
            if self._undo.pop(oldest):
                self.history.prune(oldest)

    def _salt(self) -> bytes:
        """Differs after each rewinding, so that a block that comes again gets another hash."""
        return self._branches.to_bytes(8, "big")

    # ---- going back

    def pin(self, number: int | None) -> None:
        """Keeps everything that is needed to go back to a block; None lets go."""
        self._pinned = number

    def rewind(self, number: int) -> list[bytes]:
        """Drops all blocks above a number; returns their raw transactions in order.

        System transactions are left out: each block has its own.
        """
        former = self._former(number)
        self.state.reset(former)
        raw = self.history.rewind(number, former, self.state.cells)
        for gone in range(number + 1, self.head.number + 1):
            self._undo.pop(gone, None)
        self._hashes = deque(self.history.hashes(number - _ANCESTORS), maxlen=_ANCESTORS)
        self.head = self.block(number)
        self._branches += 1
        self.history.set_meta("branches", self._branches.to_bytes(8, "big"))
        return [one for one in raw if one]

    def reorg(self, depth: int, drop: Collection[bytes] = (), delay: int = 0) -> Block:
        """Replaces the newest blocks by one more of them.

        Their transactions go into the first block after `delay` empty ones; those in `drop`
        vanish, from the pool too.
        """
        if not 1 <= depth <= min(KEPT_STATES, self.head.number):
            raise RpcFault(f"cannot replace {depth} blocks")
        for raw in self.rewind(self.head.number - depth):
            fields = self._builder.decode(raw)
            self.pool.restore(fields, raw)
        for transaction_hash in drop:
            waiting = self.pool.get(transaction_hash)
            if waiting is not None:
                self.pool.remove(waiting)
        for index in range(depth + 1):
            self.mine(empty=index < delay)
        return self.head

    def _former(self, number: int) -> dict[Cell, Value | None]:
        """What to put back over the newest state to get the one after a block."""
        former: dict[Cell, Value | None] = {}
        for above in range(self.head.number, number, -1):
            undo = self._undo.get(above)
            if undo is None:
                raise RpcFault(
                    f"missing trie node: the state after block {number} is pruned, "
                    f"this node keeps {KEPT_STATES} of them"
                )
            former.update(undo)
        return former

    # ---- looking

    def block(self, number: int) -> Block:
        """A block that exists."""
        block = self.head if number == self.head.number else self.history.block(number)
        if block is None:
            raise RpcFault("header not found")
        return block

    @contextmanager
    def machine(self, at: Moment) -> Iterator[DevState]:
        """The machine at a moment, to try something that leaves no trace."""
        former = self._former(at.block.number)
        self._vm.execution_context = self._context_at(at.number, at.time)
        try:
            self.state.overlay(former)
            yield self._vm
        finally:
            self.state.forget()

    def _context_at(self, number: int, time: int) -> ExecutionContext:
        below = list(self._hashes)
        if number <= self.head.number:
            below = below[: number - self.head.number - 1]
        return _context(self.chain_id, number, time, self.base_fee, below[::-1])


def _context(
    chain_id: int, number: int, time: int, base_fee: int, ancestors: Sequence[bytes]
) -> ExecutionContext:
    return ExecutionContext(
        coinbase=Address(COINBASE),
        timestamp=time,
        block_number=BlockNumber(number),
        difficulty=0,
        mix_hash=Hash32(MIX_HASH),
        gas_limit=GAS_LIMIT,
        prev_hashes=[Hash32(one) for one in ancestors],
        chain_id=chain_id,
        base_fee_per_gas=base_fee,
        excess_blob_gas=0,
    )


def _check_fields(fields: Any, schedule: GasSchedule) -> None:
    """What geth looks at before it looks at the sender."""
    if fields.gas > GAS_LIMIT:
        raise RpcFault("exceeds block gas limit")
    tip, fee = fields.max_priority_fee_per_gas, fields.max_fee_per_gas
    if tip > fee:
        raise RpcFault(
            "max priority fee per gas higher than max fee per gas: "
            f"maxPriorityFeePerGas: {tip}, maxFeePerGas: {fee}"
        )
    if tip < 1:
        raise RpcFault(f"transaction underpriced: gas tip cap {tip}, minimum needed 1")
    if fields.gas < fields.intrinsic_gas:
        raise RpcFault(
            f"intrinsic gas too low: gas {fields.gas}, minimum needed {fields.intrinsic_gas}"
        )
    floor = schedule.floor_gas(fields.data)
    if fields.gas < floor:
        raise RpcFault(
            f"insufficient gas for floor data gas cost: gas {fields.gas}, minimum needed {floor}"
        )
