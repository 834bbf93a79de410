"""Execution without a transaction: eth_call and eth_estimateGas."""

from __future__ import annotations

from typing import Final

from eth._utils.address import generate_contract_address
from eth.abc import ComputationAPI
from eth.exceptions import (
    InvalidInstruction,
    InvalidJumpDestination,
    OutOfGas,
    Revert,
    VMError,
    WriteProtection,
)
from eth.vm.message import Message
from eth_typing import Address

from florin_sandbox.devnet.errors import RpcFault
from florin_sandbox.devnet.evm.chain import EmbeddedEvmChain, ExecutionMoment
from florin_sandbox.devnet.evm.params import EvmCall
from florin_sandbox.devnet.evm.state import DevState
from florin_sandbox.devnet.evm.views import COINBASE, GAS_LIMIT

_ERROR_STRING: Final = bytes.fromhex("08c379a0")
_INIT_CODE_MAX: Final = 49_152
_STIPEND: Final = 2_300
# geth stops its search here too: a closer answer is not worth another run
_TOLERANCE: Final = 0.015

_REASONS: Final[tuple[tuple[type[VMError], str], ...]] = (
    (OutOfGas, "out of gas"),
    (InvalidJumpDestination, "invalid jump destination"),
    (InvalidInstruction, "invalid opcode"),
    (WriteProtection, "write protection"),
)


def simulate_call(chain: EmbeddedEvmChain, call: EvmCall, moment: ExecutionMoment) -> bytes:
    """Return a call's output, or raise geth's error; its gas includes the intrinsic gas."""
    gas, intrinsic = min(call.gas or GAS_LIMIT, GAS_LIMIT), _compute_intrinsic_gas(call)
    if gas < intrinsic:
        raise RpcFault(
            f"err: intrinsic gas too low: have {gas}, want {intrinsic} (supplied gas {gas})"
        )
    if gas < (floor := chain.schedule.compute_floor_gas(call.data)):
        raise RpcFault(
            f"err: insufficient gas for floor data gas cost: have {gas}, want {floor} "
            f"(supplied gas {gas})"
        )
    with chain.open_machine(moment) as machine:
        computation = _run_call(machine, call, gas - intrinsic)
        if computation.is_error:
            raise _build_fault(computation)
        return bytes(computation.output)


def estimate_gas(chain: EmbeddedEvmChain, call: EvmCall, moment: ExecutionMoment) -> int:
    """Return a sufficient gas limit, at most one or two percent more than needed."""
    intrinsic = _compute_intrinsic_gas(call)
    most = min(call.gas or GAS_LIMIT, GAS_LIMIT)
    floor = max(chain.schedule.compute_floor_gas(call.data), intrinsic)

    def attempt(limit: int) -> ComputationAPI:
        with chain.open_machine(moment) as machine:
            return _run_call(machine, call, limit - intrinsic)

    if most < floor:
        raise RpcFault(f"gas required exceeds allowance ({most})")
    widest = attempt(most)
    if widest.is_error:
        if isinstance(widest.error, OutOfGas) and most < GAS_LIMIT:
            raise RpcFault(f"gas required exceeds allowance ({most})")
        raise _build_fault(widest)
    used = intrinsic + (most - intrinsic - widest.get_gas_remaining())
    low, high = used - 1, most
    # calls pass on 63/64 of their gas, so a little more than was used is often enough
    likely = (used + _STIPEND) * 64 // 63
    if likely < high and not attempt(likely).is_error:
        high = likely
    if low + 1 < high and not attempt(used).is_error:
        high = used
    while low + 1 < high and (high - low) > high * _TOLERANCE:
        middle = min((low + high) // 2, low * 2)
        if attempt(middle).is_error:
            low = middle
        else:
            high = middle
    return max(high, floor)


def _run_call(machine: DevState, call: EvmCall, gas: int) -> ComputationAPI:
    sender = Address(call.sender)
    price = _buy_gas(machine, call, gas)
    if machine.get_balance(sender) < call.value:
        raise RpcFault("insufficient funds for transfer")
    context = machine.get_transaction_context_class()(gas_price=price, origin=sender)
    for warm in (call.sender, COINBASE):
        machine.mark_address_warm(Address(warm))
    computation = machine.computation_class
    if call.to is None:
        if len(call.data) > _INIT_CODE_MAX:
            raise RpcFault(
                f"max initcode size exceeded: code size {len(call.data)}, limit {_INIT_CODE_MAX}"
            )
        place = generate_contract_address(sender, machine.get_nonce(sender))
        machine.mark_address_warm(place)
        creation = Message(
            gas=gas,
            to=Address(b""),
            sender=sender,
            value=call.value,
            data=b"",
            code=call.data,
            create_address=place,
        )
        return computation.apply_create_message(machine, creation, context)
    to = Address(call.to)
    machine.mark_address_warm(to)
    code, delegate = machine.get_transaction_executor().get_code_at_address(to)  # type: ignore[attr-defined]
    message = Message(
        gas=gas,
        to=to,
        sender=sender,
        value=call.value,
        data=call.data,
        code=code,
        is_delegation=delegate is not None,
    )
    return computation.apply_message(machine, message, context)


def _buy_gas(machine: DevState, call: EvmCall, gas: int) -> int:
    """Return the gas price; the sender pays for all gas before execution, as in geth.

    `gas` is the call's own gas after the intrinsic gas.
    """
    if not call.max_fee and not call.tip:
        return 0
    sender, base_fee = Address(call.sender), machine.execution_context.base_fee_per_gas or 0
    if call.tip > call.max_fee:
        raise RpcFault(
            f"err: max priority fee per gas higher than max fee per gas: address "
            f"0x{sender.hex()}, maxPriorityFeePerGas: {call.tip}, maxFeePerGas: {call.max_fee}"
        )
    if call.max_fee < base_fee:
        raise RpcFault(
            f"err: max fee per gas less than block base fee: address 0x{sender.hex()}, "
            f"maxFeePerGas: {call.max_fee}, baseFee: {base_fee}"
        )
    bought = gas + _compute_intrinsic_gas(call)
    fees = machine.fees
    have = machine.get_balance(sender) if fees is None else fees.get_balance(machine.flat, sender)
    want = bought * call.max_fee + call.value
    if have < want:
        raise RpcFault(
            f"err: insufficient funds for gas * price + value: address 0x{sender.hex()} "
            f"have {have} want {want} (supplied gas {bought})"
        )
    price = min(base_fee + call.tip, call.max_fee)
    if fees is None:
        machine.set_balance(sender, have - bought * price)
    else:
        fees.take_fee(machine.flat, sender, bought * price)
    return price


def _compute_intrinsic_gas(call: EvmCall) -> int:
    zeros = call.data.count(0)
    creation = 0 if call.to is not None else 32_000
    return 21_000 + 4 * zeros + 16 * (len(call.data) - zeros) + creation


def _build_fault(computation: ComputationAPI) -> RpcFault:
    output = bytes(computation.output)
    if isinstance(computation.error, Revert):
        reason = _decode_reason(output)
        message = f"execution reverted: {reason}" if reason else "execution reverted"
        return RpcFault(message, 3, "0x" + output.hex())
    for kind, text in _REASONS:
        if isinstance(computation.error, kind):
            return RpcFault(text)
    return RpcFault(f"execution failed: {type(computation.error).__name__}")


def _decode_reason(output: bytes) -> str:
    """Return the text of Solidity's Error(string)."""
    if output[:4] != _ERROR_STRING or len(output) < 68:
        return ""
    length = int.from_bytes(output[36:68], "big")
    return output[68 : 68 + length].decode("utf-8", "replace")
