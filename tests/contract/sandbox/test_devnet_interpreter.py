"""Test that the faster interpreter behaves exactly like py-evm."""

from __future__ import annotations

import random
from unittest.mock import patch

import pytest
from eth.vm.forks.prague.computation import PragueComputation
from florin_sandbox.devnet.evm.chain import EmbeddedEvmChain, ExecutionMoment
from florin_sandbox.devnet.evm.history import EvmHistory
from florin_sandbox.devnet.evm.interpreter import BINARY, GAS, DevComputation
from florin_sandbox.devnet.evm.state import DevState
from florin_server.base.clock import TestClock

from tests.support.evm_devnet import START_S, encode_call, make_account, make_payment, open_node

PLACE = b"\xee" * 20
EDGES = (0, 1, 2, 31, 32, 255, 256, 2**128, 2**255, 2**256 - 1)
PUSHES = (0x5F, 0x60, 0x61, 0x7F)
OTHERS = (
    *(*BINARY, 0x05, 0x07, 0x0B, 0x12, 0x13, 0x15, 0x19, 0x1A, 0x1D, 0x20, 0x30, 0x33, 0x34, 0x35),
    *(0x36, 0x37, 0x3D, 0x50, 0x51, 0x52, 0x53, 0x54, 0x55, 0x57, 0x58, 0x59, 0x5A, 0x5B, 0x5C),
    *(0x5D, 0x5E, 0x80, 0x81, 0x82, 0x8F, 0x90, 0x91, 0x9F),
)


@pytest.fixture(scope="module")
def chain() -> EmbeddedEvmChain:
    clock = TestClock(START_S * 1_000_000)
    return EmbeddedEvmChain(EvmHistory(None), 31337, 0, lambda: clock.now_us() // 1_000_000, {})


def run(chain: EmbeddedEvmChain, rules: type[PragueComputation], code: bytes, gas: int) -> tuple:
    """Run code; return everything observable about the run."""
    from eth.vm.message import Message

    head = chain.head
    with (
        chain.open_machine(ExecutionMoment(head, head.number, head.time)) as machine,
        patch.object(DevState, "computation_class", rules),
    ):
        data = bytes(range(1, 101))
        message = Message(gas=gas, to=PLACE, sender=PLACE, value=0, data=data, code=code)
        context = machine.get_transaction_context_class()(gas_price=0, origin=PLACE)
        computation_api = rules.apply_message(machine, message, context)
        return (
            computation_api.is_success,
            computation_api.is_error and computation_api.error.burns_gas,
            bytes(computation_api.output),
            computation_api.get_gas_remaining(),
            # py-evm offers no other access to either
            [computation_api.stack_pop1_int() for _ in range(len(computation_api._stack.values))],  # noqa: SLF001
            bytes(computation_api._memory._bytes),  # noqa: SLF001
            {cell: value for cell, value in machine.flat.cells.items() if cell[0] == PLACE},
        )


def same(chain: EmbeddedEvmChain, code: bytes, gas: int = 100_000) -> tuple:
    ours, theirs = run(chain, DevComputation, code, gas), run(chain, PragueComputation, code, gas)
    # nothing can observe the memory and stack that a failed computation leaves
    seen = slice(None) if not theirs[1] else slice(4)
    assert ours[seen] == theirs[seen], code.hex()
    return theirs


@pytest.mark.parametrize("opcode", BINARY)
def test_arithmetic_is_the_same_at_the_edges(chain, opcode):
    assert GAS[opcode] > 0
    for first in EDGES:
        for second in EDGES:
            push = b"\x7f" + second.to_bytes(32, "big") + b"\x7f" + first.to_bytes(32, "big")
            assert same(chain, push + bytes([opcode]))[0]


def test_random_programs_end_the_same(chain):
    chance = random.Random(20)
    successes = 0
    for _ in range(3_000):
        gas = chance.choice((200, 3_000, 100_000, 100_000))
        successes += same(chain, program(chance), gas)[0]
    assert successes > 1_000


def program(chance: random.Random) -> bytes:
    """Return random code that starts with some pushes; it may run to its end."""
    code = bytearray()
    opcodes = [chance.choice(PUSHES) for _ in range(chance.randrange(4, 20))]
    later = (PUSHES if chance.random() < 0.55 else OTHERS for _ in range(chance.randrange(1, 40)))
    opcodes += [chance.choice(choices) for choices in later]
    for opcode in opcodes:
        code.append(opcode)
        size = opcode - 0x5F if opcode in PUSHES else 0
        # mostly small: a large number as a memory offset ends the run
        number = chance.choice(EDGES) if chance.random() < 0.1 else chance.randrange(64)
        code += number.to_bytes(32, "big")[32 - size :]
    return bytes(code)


@pytest.mark.parametrize(
    "code",
    [
        "5b5f56",  # an endless loop
        "60",  # a number cut off by the end of the code
        "600456005b60015b",  # a jump over a stop
        "6003565b",  # a jump to a jump destination
        "60045660605b",  # a jump into the number of a PUSH
        "5f515f5260205ff3",  # reads and writes fresh memory
        "7f" + "ff" * 32 + "51",  # more memory than there is gas for
        "5f" * 1025,  # one number too many
        "5f" * 1024 + "80",  # the same by DUP
        "50",
        "01",
        "90",
        "81",
        "56",
        "57",
        "51",
        "52",
        "15",
        "19",
        "35",
    ],
)
def test_odd_programs_end_the_same(chain, code):
    same(chain, bytes.fromhex(code))


async def test_a_settlement_costs_the_same_gas():
    used = []
    for rules in (DevComputation, PragueComputation):
        with patch.object(DevState, "computation_class", rules):
            async with open_node() as node:
                relayer, buyer = make_account(2), make_account(4)
                await node.fund(relayer.address, buyer.address)
                receipt = await node.settle(
                    relayer, make_payment(buyer, 1), make_payment(buyer, 2, fee=9)
                )
                used.append((receipt["gasUsed"], receipt["logs"][0]["data"], encode_call("x()")))
    assert used[0] == used[1]
