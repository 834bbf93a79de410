"""A faster interpreter for plain opcodes; py-evm runs all other opcodes.

py-evm asks the code for each opcode in turn. This code first executes every opcode that only moves
numbers on the stack, in memory or within the code, and then returns the next opcode. It parses code
once, so that execution is a table lookup per instruction. Its effects on stack, memory and gas
equal py-evm's exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final, TypeAlias

from eth.exceptions import FullStack, InsufficientStack, InvalidJumpDestination, OutOfGas
from eth.vm.code_stream import CodeStream
from eth.vm.computation import BaseComputation
from eth.vm.forks.prague.computation import PragueComputation
from eth.vm.forks.prague.opcodes import PRAGUE_OPCODES

from florin_sandbox.devnet.evm.schedule import PRAGUE_ACCOUNT

# kind and operand, units of gas, and the position of the next instruction
_Step: TypeAlias = tuple[int, Any, int, int]

_MAX: Final = 2**256 - 1
_STACK_MAX: Final = 1024

STOP: Final = 0x00
ADD: Final = 0x01
ISZERO: Final = 0x15
NOT: Final = 0x19
CALLDATALOAD: Final = 0x35
POP: Final = 0x50
MLOAD: Final = 0x51
MSTORE: Final = 0x52
JUMP: Final = 0x56
JUMPI: Final = 0x57
JUMPDEST: Final = 0x5B
PUSH0: Final = 0x5F
PUSH32: Final = 0x7F
DUP1: Final = 0x80
DUP16: Final = 0x8F
SWAP1: Final = 0x90
SWAP16: Final = 0x9F
OTHER: Final = -1  # run by py-evm

# of the top of the stack and the number below it
BINARY: Final[dict[int, Callable[[int, int], int]]] = {
    0x01: lambda a, b: (a + b) & _MAX,
    0x02: lambda a, b: (a * b) & _MAX,
    0x03: lambda a, b: (a - b) & _MAX,
    0x04: lambda a, b: a // b if b else 0,
    0x06: lambda a, b: a % b if b else 0,
    0x10: lambda a, b: int(a < b),
    0x11: lambda a, b: int(a > b),
    0x14: lambda a, b: int(a == b),
    0x16: lambda a, b: a & b,
    0x17: lambda a, b: a | b,
    0x18: lambda a, b: a ^ b,
    0x1B: lambda a, b: (b << a) & _MAX if a < 256 else 0,
    0x1C: lambda a, b: b >> a if a < 256 else 0,
}
# opcodes that share their implementation with no other
_SINGLE_OPCODES: Final = frozenset(
    {ISZERO, NOT, CALLDATALOAD, POP, MLOAD, MSTORE, JUMP, JUMPI, JUMPDEST}
)
# py-evm's own costs; the opcodes run here are none that it wraps in functions
GAS: Final[tuple[int, ...]] = tuple(
    getattr(PRAGUE_OPCODES.get(code), "gas_cost", 0) for code in range(256)
)


def _get_kind(opcode: int) -> tuple[int, Any]:
    """Return the first opcode of those that work alike, and this opcode's operand.

    The operand is a place in the stack, or a function; the opcode itself where py-evm runs it.
    """
    if PUSH0 <= opcode <= PUSH32:
        return PUSH0, None
    if DUP1 <= opcode <= DUP16:
        return DUP1, DUP1 - opcode - 1
    if SWAP1 <= opcode <= SWAP16:
        return SWAP1, SWAP1 - opcode - 2
    if opcode in BINARY:
        return ADD, BINARY[opcode]
    return (opcode, None) if opcode in _SINGLE_OPCODES else (OTHER, opcode)


_KINDS: Final = tuple(_get_kind(opcode) for opcode in range(256))


@lru_cache(maxsize=128)
def _parse_code(code: bytes) -> tuple[list[_Step], frozenset[int]]:
    """Return the instructions by position, with a final STOP, and the valid jump destinations."""
    steps: list[_Step] = []
    destinations = set()
    while (at := len(steps)) < len(code):
        opcode = code[at]
        kind, operand = _KINDS[opcode]
        after = at + 1
        if kind == PUSH0:
            size = opcode - PUSH0
            after += size
            operand = int.from_bytes(code[at + 1 : after].ljust(size, b"\0"), "big")
        elif kind == JUMPDEST:
            destinations.add(at)
        # no jump leads into a number
        steps += [(kind, operand, GAS[opcode], after)] * (after - at)
    return [*steps, (OTHER, STOP, 0, at)], frozenset(destinations)


class _FastCode(CodeStream):
    """The code of a running computation."""

    def __init__(self, code: bytes, computation: BaseComputation) -> None:
        super().__init__(code)
        self._computation = computation

    def __iter__(self) -> Iterator[int]:
        """Execute plain opcodes; yield the others."""
        try:
            yield from self._run()
        except IndexError:
            raise InsufficientStack("too few numbers on the stack") from None

    def _run(self) -> Iterator[int]:  # noqa: C901, PLR0912, PLR0915  (a dispatch is one piece)
        computation = self._computation
        _charge_new_account(computation)
        steps, destinations = _parse_code(self._raw_code_bytes)
        # all numbers on the stack are ints here; py-evm's own opcodes leave bytes only on top
        stack: list[Any] = computation._stack.values  # type: ignore[attr-defined]  # noqa: SLF001
        meter: Any = computation._gas_meter  # noqa: SLF001
        memory: Any = computation._memory  # noqa: SLF001
        data = computation.msg.data_as_bytes
        gas = meter.gas_remaining
        at = self.program_counter
        while True:
            kind, operand, cost, at = steps[at]
            if kind == PUSH0:
                if len(stack) >= _STACK_MAX:
                    raise FullStack("Stack limit reached")
                stack.append(operand)
            elif kind == DUP1:
                if len(stack) >= _STACK_MAX:
                    raise FullStack("Stack limit reached")
                stack.append(stack[operand])
            elif kind == SWAP1:
                stack[-1], stack[operand] = stack[operand], stack[-1]
            elif kind == ADD:
                first = stack.pop()
                stack[-1] = operand(first, stack[-1])
            elif kind == POP:
                stack.pop()
            elif kind == JUMPDEST:
                pass
            elif kind in (JUMP, JUMPI):
                target = stack.pop()
                if kind == JUMP or stack.pop():
                    if target not in destinations:
                        raise InvalidJumpDestination("Invalid Jump Destination")
                    at = target
            elif kind in (MSTORE, MLOAD):
                place = stack.pop()
                if place + 32 > len(memory):
                    meter.gas_remaining = gas - cost
                    computation.extend_memory(place, 32)
                    gas = meter.gas_remaining + cost
                if kind == MSTORE:
                    memory._bytes[place : place + 32] = stack.pop().to_bytes(32, "big")  # noqa: SLF001
                else:
                    stack.append(int.from_bytes(memory._bytes[place : place + 32], "big"))  # noqa: SLF001
            elif kind == ISZERO:
                stack[-1] = int(stack[-1] == 0)
            elif kind == NOT:
                stack[-1] = _MAX - stack[-1]
            elif kind == CALLDATALOAD:
                place = stack[-1]
                stack[-1] = int.from_bytes(data[place : place + 32].ljust(32, b"\0"), "big")
            elif kind == OTHER:
                meter.gas_remaining = gas
                self.program_counter = at
                yield operand
                if stack and isinstance(stack[-1], bytes):
                    stack[-1] = int.from_bytes(stack[-1], "big")
                gas = meter.gas_remaining
                # py-evm has already charged it
                continue
            gas -= cost
            if gas < 0:
                raise OutOfGas(f"Out of gas: {-gas} missing")


def _charge_new_account(computation: BaseComputation) -> None:
    """Charge a transaction that sends coin to a new account, where accounts cost more."""
    message: Any = computation.msg
    state: Any = computation.state
    if not message.value or message.depth or message.is_create or not state.schedule.account_extra:
        return
    receiver = message.storage_address
    is_new = state.get_balance(receiver) == message.value
    if is_new and not state.has_code_or_nonce(receiver):
        computation.consume_gas(state.schedule.account, reason="new account")


class _SstoreOpcode:
    """Prague's SSTORE, with the extra cost of a new slot."""

    mnemonic = "SSTORE"

    def __call__(self, computation: Any) -> None:
        extra = computation.state.schedule.slot_extra
        if extra:
            slot, value = computation._stack.values[-1], computation._stack.values[-2]  # noqa: SLF001
            place = computation.msg.storage_address
            original = computation.state.get_storage(place, slot, from_journal=False)
            if original == 0 and bool(value) != bool(computation.state.get_storage(place, slot)):
                if value:
                    computation.consume_gas(extra, reason="new slot")
                else:
                    computation.refund_gas(extra)
        _PRAGUE_SSTORE(computation=computation)


class _CallOpcode(type(PRAGUE_OPCODES[0xF1])):  # type: ignore[misc]
    """Prague's CALL, with the extra cost of a new account."""

    def compute_msg_extra_gas(self, computation: Any, gas: int, to: Any, value: int) -> int:
        extra: int = super().compute_msg_extra_gas(computation, gas, to, value)
        if extra < PRAGUE_ACCOUNT:
            return extra
        return extra + int(computation.state.schedule.account_extra)


_PRAGUE_SSTORE: Final[Any] = PRAGUE_OPCODES[0x55]


class DevComputation(PragueComputation):
    """One call or creation, by Prague's rules at the prices of the chain's schedule."""

    opcodes = {**PRAGUE_OPCODES, 0x55: _SstoreOpcode(), 0xF1: _CallOpcode()}  # type: ignore[dict-item]  # noqa: RUF012

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.code = _FastCode(self.msg.code, self)
