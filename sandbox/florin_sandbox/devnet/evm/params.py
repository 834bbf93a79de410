"""Parsers of JSON-RPC arguments; a malformed argument raises RpcFault."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from florin_sandbox.devnet.errors import invalid_params_fault

_QUANTITY: Final = re.compile(r"0x[0-9a-fA-F]{1,64}", re.ASCII)
_DATA: Final = re.compile(r"0x(?:[0-9a-fA-F]{2})*", re.ASCII)
_FEES: Final = ("gasPrice", "maxFeePerGas", "maxPriorityFeePerGas")
_CALL_FIELDS_USED: Final = ("from", "to", "gas", "value", "data", "input", *_FEES)
# accepted and ignored
_CALL_FIELDS_IGNORED: Final = ("nonce", "type", "chainId")
_CALL_FIELDS: Final = frozenset((*_CALL_FIELDS_USED, *_CALL_FIELDS_IGNORED))


@dataclass(frozen=True, slots=True)
class EvmCall:
    """The call of eth_call and eth_estimateGas; without `to` the data is creation code.

    `max_fee` and `tip` are in wei per unit of gas; without them the call costs nothing.
    """

    sender: bytes
    to: bytes | None
    gas: int | None
    value: int
    data: bytes
    max_fee: int = 0
    tip: int = 0


def parse_quantity(value: Any) -> int:
    """Parse a number in hex."""
    if not isinstance(value, str) or not _QUANTITY.fullmatch(value):
        raise invalid_params_fault(f"invalid argument: {value!r} is not a hex number")
    return int(value, 16)


def parse_count(value: Any, count_max: int) -> int:
    """Parse a number from 0 to `count_max`, in hex or plain."""
    number = parse_integer(value)
    if not 0 <= number <= count_max:
        raise invalid_params_fault(f"invalid argument: {number} is not between 0 and {count_max}")
    return number


def parse_integer(value: Any) -> int:
    """Parse a number, in hex or plain."""
    if isinstance(value, bool | float):
        raise invalid_params_fault(f"invalid argument: {value!r} is not a whole number")
    return value if isinstance(value, int) else parse_quantity(value)


def parse_data(value: Any) -> bytes:
    """Parse bytes in hex."""
    if not isinstance(value, str) or not _DATA.fullmatch(value):
        raise invalid_params_fault("invalid argument: not hex data")
    return bytes.fromhex(value[2:])


def parse_address(value: Any) -> bytes:
    """Parse twenty bytes."""
    data = parse_data(value)
    if len(data) != 20:
        raise invalid_params_fault("invalid argument: not an address")
    return data


def parse_hash(value: Any) -> bytes:
    """Parse thirty-two bytes."""
    data = parse_data(value)
    if len(data) != 32:
        raise invalid_params_fault("invalid argument: not a hash")
    return data


def parse_fields(value: Any, allowed: Sequence[str] | frozenset[str]) -> Mapping[str, Any]:
    """Parse an object with only the allowed fields; null equals absent."""
    if not isinstance(value, dict):
        raise invalid_params_fault("invalid argument: not an object")
    unknown = sorted(name for name in value if name not in allowed)
    if unknown:
        raise invalid_params_fault(f"invalid argument: {', '.join(unknown)} not supported here")
    return {name: item for name, item in value.items() if item is not None}


def parse_call(value: Any) -> EvmCall:
    """Parse the transaction to try."""
    if isinstance(value, dict) and not value.get("accessList", True):
        value = {name: item for name, item in value.items() if name != "accessList"}
    fields = parse_fields(value, _CALL_FIELDS)
    if "data" in fields and fields.get("input", fields["data"]) != fields["data"]:
        raise invalid_params_fault('both "data" and "input" are set and not equal')
    max_fee, tip = _parse_fees(fields)
    return EvmCall(
        sender=parse_address(fields["from"]) if "from" in fields else bytes(20),
        to=parse_address(fields["to"]) if "to" in fields else None,
        gas=parse_quantity(fields["gas"]) if "gas" in fields else None,
        value=parse_quantity(fields.get("value", "0x0")),
        data=parse_data(fields.get("input", fields.get("data", "0x"))),
        max_fee=max_fee,
        tip=tip,
    )


def _parse_fees(options: Mapping[str, Any]) -> tuple[int, int]:
    """Return a call's highest fee per gas, and its tip for the block's producer."""
    fees = {name: parse_quantity(options[name]) for name in _FEES if name in options}
    if "gasPrice" not in fees:
        return fees.get("maxFeePerGas", 0), fees.get("maxPriorityFeePerGas", 0)
    if len(fees) > 1:
        raise invalid_params_fault(
            "both gasPrice and (maxFeePerGas or maxPriorityFeePerGas) specified"
        )
    return fees["gasPrice"], fees["gasPrice"]
