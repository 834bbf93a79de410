"""The chain itself: pool, blocks, execution, rewinding. Used by one thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

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

from florin_sandbox.devnet.errors import DevChainError, RpcFault
from florin_sandbox.devnet.evm.admission import check_fields
from florin_sandbox.devnet.evm.block_rules import BlockRules
from florin_sandbox.devnet.evm.history import EvmBlock, EvmHistory, StoredTransaction
from florin_sandbox.devnet.evm.pool import PooledTransaction, TransactionPool
from florin_sandbox.devnet.evm.schedule import GasSchedule
from florin_sandbox.devnet.evm.state import (
    Cell,
    DevState,
    FlatState,
    Value,
)
from florin_sandbox.devnet.evm.system_transactions import (
    SYSTEM_GAS,
    list_system_hashes,
    list_system_transactions,
)
from florin_sandbox.devnet.evm.token_fees import MANAGER_CODE, UNIT_WEI, TokenFees
from florin_sandbox.devnet.evm.views import (
    COINBASE,
    GAS_LIMIT,
    MIX_HASH,
    EvmOutcome,
    build_receipt_view,
    build_transaction_view,
    compute_logs_bloom,
)
from florin_sandbox.devnet.genesis import (
    DEVNET,
    FAUCET_WEI,
    load_artifact,
    load_former_settlers,
)

STATES_MAX: Final = 128  # as in geth: older states are pruned, and deeper reorgs impossible
GWEI: Final = 10**9

_ANCESTORS: Final = 256  # the range of BLOCKHASH
_FORMAT: Final = b"1"
# the code that a stored chain must have had from its start; the forwarder is not required, because
# chains of earlier releases continue without it
_CONTRACTS: Final = (
    "PaySettler",
    "TestDollar",
    "TestEuro",
    "Opener",
    "DevWalletFactory",
    "DevPermit2",
)
_DECODE_ERRORS: Final = (
    PyEVMError,
    ValidationError,
    BadSignature,
    rlp.RLPException,
    ValueError,
    TypeError,
)


@dataclass(frozen=True, slots=True)
class ExecutionMoment:
    """The state after a block, as code sees it at a block number and a time."""

    block: EvmBlock
    number: int
    time: int  # Unix seconds


class EmbeddedEvmChain:
    """One whole chain; `now` returns Unix seconds, `code` is additional code of the first block.

    With `fees` only its faucet has coin, and gas is charged in a token.
    """

    def __init__(  # noqa: PLR0917  (each of another type)
        self,
        history: EvmHistory,
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
        self.pool = TransactionPool()
        self.base_fee = GWEI
        self.last_nonempty_number = 0  # the newest block with a transaction
        self.last_busy_s = now()  # its time, in Unix seconds
        self.revert_count = 0  # how many transactions must fail from now on
        self._builder = PragueVM.get_transaction_builder()
        self._vm = DevState(None, _build_context(chain_id, 0, 0, GWEI, ()), BLANK_ROOT_HASH)  # type: ignore[arg-type]
        self._vm.schedule = self.schedule
        self._vm.fees = fees
        self._branches = 0
        self._pinned_number: int | None = None
        self._check_origin(seed, code)
        head = history.find_head()
        if head is None:
            self._undo: dict[int, dict[Cell, Value | None]] = {}
            self._hashes: deque[bytes] = deque(maxlen=_ANCESTORS)
            self._create_genesis(seed, code)
            return
        self.head = head
        self.last_nonempty_number, self.last_busy_s = head.number, head.time
        self.base_fee = head.base_fee
        self.state.cells = history.load_cells()
        oldest = max(1, head.number - STATES_MAX + 1)
        undo = history.load_undo(oldest - 1)  # an empty block has no undo rows
        self._undo = {number: undo.get(number, {}) for number in range(oldest, head.number + 1)}
        self._hashes = deque(history.list_hashes(head.number - _ANCESTORS), maxlen=_ANCESTORS)
        self._branches = int.from_bytes(history.find_meta("branches") or b"")

    @property
    def state(self) -> FlatState:
        """Return the state after the newest block; callers only read it."""
        return self._vm.flat

    # ---- the first block

    def _check_origin(self, seed: int, additional_code: Mapping[str, bytes]) -> None:
        """Require that a file began with these settings, under this release or an earlier one."""
        settler, *codes = [load_artifact(name).init for name in _CONTRACTS]
        placed = [
            part for place, code in additional_code.items() for part in (place.encode(), code)
        ]
        if self.fees is not None:
            placed += [self.fees.token.encode(), self.fees.manager.encode()]
        origins = [
            _FORMAT + keccak(rlp.encode([self.chain_id, seed, each, *codes, *placed]))
            for each in (settler, *load_former_settlers())
        ]
        stored_origin = self.history.find_meta("origin")
        if stored_origin is None:
            self.history.set_meta("origin", origins[0])
        elif stored_origin not in origins:
            raise DevChainError(
                "the stored chain has another chain id, seed or contracts: "
                "delete its file to start a new chain"
            )

    def _create_genesis(self, seed: int, additional_code: Mapping[str, bytes]) -> None:
        faucet = bytes.fromhex(DEVNET.faucet[2:])
        time = self.now()
        self._vm.execution_context = _build_context(self.chain_id, 0, time, self.base_fee, ())
        if self.fees is None:
            self.state.set_balance(Address(faucet), FAUCET_WEI)
        self._create_contract(faucet, load_artifact("PaySettler").init, DEVNET.settler)
        owner = faucet.rjust(32, b"\0")
        self._create_contract(
            faucet, load_artifact("TestDollar").init + owner, DEVNET.token.address
        )
        self._create_contract(faucet, load_artifact("TestEuro").init + owner, DEVNET.euro.address)
        self._create_contract(faucet, load_artifact("Opener").init, DEVNET.opener)
        self._create_contract(faucet, load_artifact("DevWalletFactory").init, DEVNET.wallet_factory)
        self._create_contract(faucet, load_artifact("PayForwarder").init, DEVNET.forwarder)
        permit2 = bytes.fromhex(DEVNET.permit2[2:])
        self.state.set_code(Address(permit2), load_artifact("DevWitnessPermit2").runtime)
        proxy = bytes.fromhex(DEVNET.x402_proxy[2:])
        self.state.set_code(Address(proxy), load_artifact("DevX402Proxy").runtime)
        for place, code in additional_code.items():
            self.state.set_code(Address(bytes.fromhex(place[2:])), code)
        if self.fees is not None:
            self.state.set_code(Address(bytes.fromhex(self.fees.manager[2:])), MANAGER_CODE)
            self.fees.give_units(self.state, faucet, FAUCET_WEI // UNIT_WEI)
        self.state.seal_transaction()
        self._seal_block([], time, parent=bytes(32), number=0, salt=seed.to_bytes(8, "big"))

    def _create_contract(self, sender: bytes, code: bytes, expected: str) -> None:
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
        computation_api = self._vm.computation_class.apply_create_message(
            self._vm, message, context
        )
        computation_api.raise_if_error()

    # ---- transactions

    def decode_transaction(self, raw: bytes) -> SignedTransactionAPI:
        """Return a signed transaction of this chain; raise geth's error if it is refused."""
        if raw[:1] == b"\x03":
            raise RpcFault("transaction type not supported")
        try:
            fields = self._builder.decode(raw)
            sender = fields.sender
        except _DECODE_ERRORS as error:
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
        check_fields(fields, self.schedule)
        try:
            fields.validate()
        except (ValidationError, PyEVMError) as error:
            raise RpcFault(str(error)) from error
        if self.state.get_code(sender) and not self.state.get_code(sender).startswith(b"\xef\x01"):
            raise RpcFault("sender not an eoa")
        return fields

    def submit_transaction(self, raw: bytes) -> PooledTransaction:
        """Add a transaction to the pool."""
        fields = self.decode_transaction(raw)
        return self.pool.add_transaction(
            fields, raw, self.state, self.get_gas_balance(fields.sender)
        )

    def get_gas_balance(self, account: bytes) -> int:
        """Return an account's gas money after the newest block, in wei."""
        if self.fees is not None:
            return self.fees.get_balance(self.state, account)
        return self.state.get_balance(Address(account))

    # ---- blocks

    def mine_block(self, sender: bytes | None = None, *, is_empty: bool = False) -> EvmBlock:
        """Seal the next block: of transactions of `sender` if given, of none if `is_empty`.

        The transactions of that sender do not fail deliberately.
        """
        time = max(self.rules.get_timestamp(self.now()), self.head.time)
        number = self.head.number + 1
        self._vm.execution_context = self._context_at(number, time)
        done: list[tuple[PooledTransaction, EvmOutcome]] = []
        room = GAS_LIMIT
        candidates = (
            () if is_empty else self.pool.list_candidates(self.state, self.base_fee, sender)
        )
        for waiting in candidates:
            if waiting.transaction.gas > room:
                continue
            try:
                fails = sender is None and self.revert_count > 0
                outcome = self._execute(waiting.transaction, is_failing=fails)
            except ValidationError:
                self.state.discard_unsealed()
                self.pool.remove_transaction(waiting)  # it can no longer pay for itself
                continue
            except BaseException:
                # the machine failed: nothing of this block can stay
                self.state.discard_unsealed()
                self.state.reset_cells(self.state.take_undo())
                self.pool.remove_transaction(waiting)
                raise
            self.revert_count -= fails
            room -= outcome.gas_used
            done.append((waiting, outcome))
        block = self._seal_block(
            done, time, parent=self.head.hash, number=number, salt=self._compute_salt()
        )
        for waiting, _ in done:
            self.pool.remove_transaction(waiting)
        return block

    def _execute(self, fields: SignedTransactionAPI, *, is_failing: bool = False) -> EvmOutcome:
        taken = self._take_fee(fields)
        apply = self._vm.apply_reverting if is_failing else self._vm.apply_transaction
        computation = apply(fields)
        created = computation.msg.storage_address if computation.msg.is_create else None
        outcome = EvmOutcome(
            success=computation.is_success,
            gas_used=PragueVM.finalize_gas_used(fields, computation),
            price=self._vm.get_gas_price(fields),
            contract_address=created,
            logs=computation.get_log_entries() if computation.is_success else (),
        )
        if self.fees is not None:
            cost = outcome.gas_used * outcome.price
            fee = self.fees.settle_fee(self.state, fields.sender, taken, cost)
            outcome = replace(outcome, logs=(*outcome.logs, fee))
            for address in (fields.sender, Address(COINBASE)):
                self.state.set_balance(address, 0)
        self.state.seal_transaction()
        return outcome

    def _take_fee(self, fields: SignedTransactionAPI) -> int:
        """Take a transaction's highest cost in the fee token; return the units.

        The EVM charges coin: the sender has enough of it while the transaction runs.
        """
        if self.fees is None:
            return 0
        most = fields.gas * fields.max_fee_per_gas
        if self.get_gas_balance(fields.sender) < most:
            raise ValidationError("the sender cannot pay the fee")
        self.state.set_balance(fields.sender, most)
        return self.fees.take_fee(
            self.state, fields.sender, fields.gas * self._vm.get_gas_price(fields)
        )

    def _seal_block(
        self,
        executed: Sequence[tuple[PooledTransaction, EvmOutcome]],
        time: int,
        *,
        parent: bytes,
        number: int,
        salt: bytes,
    ) -> EvmBlock:
        hashes = list_system_hashes(self.rules.system_transactions, number, parent)
        hashes += [waiting.hash for waiting, _ in executed]
        content = [self.chain_id, number, time, parent, self.base_fee, salt, hashes]
        block = EvmBlock(
            number=number,
            hash=keccak(rlp.encode(content)),
            parent_hash=parent,
            time=time,
            base_fee=self.base_fee,
            gas_used=self._system_gas + sum(outcome.gas_used for _, outcome in executed),
            bloom=compute_logs_bloom(log for _, outcome in executed for log in outcome.logs),
        )
        undo = self.state.take_undo()
        self.history.append_block(
            block, list(self._list_transactions(block, executed)), undo, self.state.cells
        )
        self._undo[number] = undo
        self._hashes.append(block.hash)
        self.head = block
        if executed:
            self.last_nonempty_number, self.last_busy_s = number, time
        self._prune()
        return block

    def _list_transactions(
        self, block: EvmBlock, executed: Sequence[tuple[PooledTransaction, EvmOutcome]]
    ) -> Iterator[StoredTransaction]:
        first = self.rules.system_transactions
        yield from list_system_transactions(first, block, self.chain_id)
        gas, logs = self._system_gas, 0
        for position, (waiting, outcome) in enumerate(executed, first):
            fields = waiting.transaction
            receipt = build_receipt_view(
                fields, block, position, outcome, gas_before=gas, logs_before=logs
            )
            body = build_transaction_view(fields, self.chain_id, block, position)
            yield StoredTransaction(
                waiting.hash, waiting.raw, orjson.dumps(body), orjson.dumps(receipt)
            )
            gas += outcome.gas_used
            logs += len(outcome.logs)

    @property
    def _system_gas(self) -> int:
        return SYSTEM_GAS * self.rules.system_transactions

    def _prune(self) -> None:
        gone = self.head.number - STATES_MAX
        if self._pinned_number is not None:
            gone = min(gone, self._pinned_number)
        while self._undo and (oldest := next(iter(self._undo))) <= gone:
            if self._undo.pop(oldest):
                self.history.prune_undo(oldest)

    def _compute_salt(self) -> bytes:
        """Return a salt that changes with each rewind, so that repeated blocks differ."""
        return self._branches.to_bytes(8, "big")

    # ---- rewinding

    def pin_state(self, number: int | None) -> None:
        """Keep what is needed to rewind to a block; None stops that."""
        self._pinned_number = number

    def rewind_to(self, number: int) -> list[bytes]:
        """Drop all blocks above a number; return their raw transactions in order.

        System transactions are left out: each block has its own.
        """
        former = self._get_former_cells(number)
        self.state.reset_cells(former)
        raw = self.history.rewind_to(number, former, self.state.cells)
        for gone in range(number + 1, self.head.number + 1):
            self._undo.pop(gone, None)
        self._hashes = deque(self.history.list_hashes(number - _ANCESTORS), maxlen=_ANCESTORS)
        self.head = self.get_block(number)
        self._branches += 1
        self.history.set_meta("branches", self._branches.to_bytes(8, "big"))
        return [raw_transaction for raw_transaction in raw if raw_transaction]

    def replace_blocks(self, depth: int, drop: Collection[bytes] = (), delay: int = 0) -> EvmBlock:
        """Replace the newest blocks by one block more.

        Their transactions go into the first block after `delay` empty blocks; those in `drop`
        vanish, also from the pool.
        """
        if not 1 <= depth <= min(STATES_MAX, self.head.number):
            raise RpcFault(f"cannot replace {depth} blocks")
        for raw in self.rewind_to(self.head.number - depth):
            fields = self._builder.decode(raw)
            self.pool.restore_transaction(fields, raw)
        for transaction_hash in drop:
            waiting = self.pool.find_transaction(transaction_hash)
            if waiting is not None:
                self.pool.remove_transaction(waiting)
        for index in range(depth + 1):
            self.mine_block(is_empty=index < delay)
        return self.head

    def _get_former_cells(self, number: int) -> dict[Cell, Value | None]:
        """Return the cells that turn the newest state into the state after a block."""
        former: dict[Cell, Value | None] = {}
        for above in range(self.head.number, number, -1):
            undo = self._undo.get(above)
            if undo is None:
                raise RpcFault(
                    f"missing trie node: the state after block {number} is pruned, "
                    f"this node keeps {STATES_MAX} of them"
                )
            former.update(undo)
        return former

    # ---- reads

    def get_block(self, number: int) -> EvmBlock:
        """Return a block; raise RpcFault if it does not exist."""
        block = self.head if number == self.head.number else self.history.find_block(number)
        if block is None:
            raise RpcFault("header not found")
        return block

    @contextmanager
    def open_machine(self, moment: ExecutionMoment) -> Iterator[DevState]:
        """Provide the EVM at a moment, for a trial without effects."""
        former = self._get_former_cells(moment.block.number)
        self._vm.execution_context = self._context_at(moment.number, moment.time)
        try:
            self.state.overlay_cells(former)
            yield self._vm
        finally:
            self.state.discard_unsealed()

    def _context_at(self, number: int, time: int) -> ExecutionContext:
        below = list(self._hashes)
        if number <= self.head.number:
            below = below[: number - self.head.number - 1]
        return _build_context(self.chain_id, number, time, self.base_fee, below[::-1])


def _build_context(
    chain_id: int, number: int, time: int, base_fee: int, ancestors: Sequence[bytes]
) -> ExecutionContext:
    return ExecutionContext(
        coinbase=Address(COINBASE),
        timestamp=time,
        block_number=BlockNumber(number),
        difficulty=0,
        mix_hash=Hash32(MIX_HASH),
        gas_limit=GAS_LIMIT,
        prev_hashes=[Hash32(ancestor) for ancestor in ancestors],
        chain_id=chain_id,
        base_fee_per_gas=base_fee,
        excess_blob_gas=0,
    )
