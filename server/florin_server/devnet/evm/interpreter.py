"""Runs the plain opcodes at several times py-evm's pace; py-evm runs all others.

py-evm asks the code for one opcode after the other. The code here first executes every opcode that
only moves numbers on the stack, in memory or within the code, and then hands out the next one.
What it does to stack, memory and gas is exactly what py-evm would have done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final

from eth.exceptions import FullStack, InsufficientStack, InvalidJumpDestination, OutOfGas
from eth.vm.code_stream import CodeStream
from eth.vm.computation import BaseComputation
from eth.vm.forks.prague.computation import PragueComputation
from eth.vm.forks.prague.opcodes import PRAGUE_OPCODES

_MAX: Final = 2**256 - 1
_STACK_MAX: Final = 1024

STOP: Final = 0x00
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
# py-evm's own; opcodes that it wraps in functions are none of those run here
GAS: Final[tuple[int, ...]] = tuple(
    getattr(PRAGUE_OPCODES.get(code), "gas_cost", 0) for code in range(256)
)


@lru_cache(maxsize=128)
def _read(code: bytes) -> tuple[dict[int, int], frozenset[int]]:
    """The numbers that code pushes, by position, and where it may jump to."""
    pushed, destinations = {}, set()
    at = 0
    while at < len(code):
        opcode = code[at]
        if opcode == JUMPDEST:
            destinations.add(at)
        size = opcode - PUSH0 if PUSH0 <= opcode <= PUSH32 else 0
        if PUSH0 <= opcode <= PUSH32:
            number = code[at + 1 : at + 1 + size].ljust(size, b"\0")
            pushed[at] = int.from_bytes(number, "big")
        at += 1 + size
    return pushed, frozenset(destinations)


class _FastCode(CodeStream):
    """A running computation's code."""

    def __init__(self, code: bytes, computation: BaseComputation) -> None:
        super().__init__(code)
        self._computation = computation

    def __iter__(self) -> Iterator[int]:
        """Executes plain opcodes, yields the others."""
        try:
            yield from self._run()
        except IndexError:
            raise InsufficientStack("too few numbers on the stack") from None

    def _run(self) -> Iterator[int]:  # noqa: C901, PLR0912, PLR0915  (a dispatch is one piece)
        computation = self._computation
        code = self._raw_code_bytes
        pushed, destinations = _read(code)
        size = len(code)
        # all numbers on the stack are ints here; py-evm's own opcodes leave bytes on top at most
        stack: list[Any] = computation._stack.values  # type: ignore[attr-defined]  # noqa: SLF001
        meter: Any = computation._gas_meter  # noqa: SLF001
        memory: Any = computation._memory  # noqa: SLF001
        data: bytes | None = None
        gas = meter.gas_remaining
        at = self.program_counter
        while at < size:
            opcode = code[at]
            cost = GAS[opcode]
            if PUSH0 <= opcode <= PUSH32:
                if len(stack) >= _STACK_MAX:
                    raise FullStack("Stack limit reached")
                stack.append(pushed[at])
                at += 1 + opcode - PUSH0
            elif DUP1 <= opcode <= DUP16:
                if len(stack) >= _STACK_MAX:
                    raise FullStack("Stack limit reached")
                stack.append(stack[DUP1 - opcode - 1])
                at += 1
            elif SWAP1 <= opcode <= SWAP16:
                other = SWAP1 - opcode - 2
                stack[-1], stack[other] = stack[other], stack[-1]
                at += 1
            elif opcode in BINARY:
                first = stack.pop()
                stack[-1] = BINARY[opcode](first, stack[-1])
                at += 1
            elif opcode == JUMPDEST:
                at += 1
            elif opcode == POP:
                stack.pop()
                at += 1
            elif opcode in (JUMP, JUMPI):
                target = stack.pop()
                if opcode == JUMPI and not stack.pop():
                    at += 1
                elif target in destinations:
                    at = target
                else:
                    raise InvalidJumpDestination("Invalid Jump Destination")
            elif opcode in (MSTORE, MLOAD):
                place = stack.pop()
                if place + 32 > len(memory):
                    meter.gas_remaining = gas - cost
                    computation.extend_memory(place, 32)
                    gas = meter.gas_remaining + cost
                if opcode == MSTORE:
                    memory._bytes[place : place + 32] = stack.pop().to_bytes(32, "big")  # noqa: SLF001
                else:
                    stack.append(int.from_bytes(memory._bytes[place : place + 32], "big"))  # noqa: SLF001
                at += 1
            elif opcode == ISZERO:
                stack[-1] = int(stack[-1] == 0)
                at += 1
            elif opcode == NOT:
                stack[-1] = _MAX - stack[-1]
                at += 1
            elif opcode == CALLDATALOAD:
                data = computation.msg.data_as_bytes if data is None else data
                place = stack[-1]
                stack[-1] = int.from_bytes(data[place : place + 32].ljust(32, b"\0"), "big")
                at += 1
            else:
                meter.gas_remaining = gas
                self.program_counter = at + 1
                yield opcode
                if stack and isinstance(stack[-1], bytes):
                    stack[-1] = int.from_bytes(stack[-1], "big")
                gas = meter.gas_remaining
                at = self.program_counter
                continue
            gas -= cost
            if gas < 0:
                raise OutOfGas(f"Out of gas: {-gas} missing")
        meter.gas_remaining = gas
        self.program_counter = at
        yield STOP


class DevComputation(PragueComputation):
    """One call or creation, by Prague's rules."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.code = _FastCode(self.msg.code, self)
