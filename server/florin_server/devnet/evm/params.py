"""Reads JSON-RPC arguments; anything malformed is an invalid argument."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from florin_server.devnet.errors import bad_params

_QUANTITY: Final = re.compile(r"0x[0-9a-fA-F]{1,64}", re.ASCII)
_DATA: Final = re.compile(r"0x(?:[0-9a-fA-F]{2})*", re.ASCII)
_FEES: Final = ("gasPrice", "maxFeePerGas", "maxPriorityFeePerGas")
_TRIED: Final = ("from", "to", "gas", "value", "data", "input", *_FEES)
# taken and not looked at
_IGNORED: Final = ("nonce", "type", "chainId")
_CALL_FIELDS: Final = frozenset((*_TRIED, *_IGNORED))


@dataclass(frozen=True, slots=True)
class Call:
    """What eth_call and eth_estimateGas try. Without `to` the data is code to create with.

    `max_fee` and `tip` are in wei for each unit of gas; without any the call costs nothing.
    """

    sender: bytes
    to: bytes | None
    gas: int | None
    value: int
    data: bytes
    max_fee: int = 0
    tip: int = 0


def quantity(value: Any) -> int:
    """A number in hex."""
    if not isinstance(value, str) or not _QUANTITY.fullmatch(value):
        raise bad_params(f"invalid argument: {value!r} is not a hex number")
    return int(value, 16)


def count(value: Any, most: int) -> int:
    """A small number, in hex or plain."""
    number = integer(value)
    if not 0 <= number <= most:
        raise bad_params(f"invalid argument: {number} is not between 0 and {most}")
    return number


def integer(value: Any) -> int:
    """A number, in hex or plain."""
    if isinstance(value, bool | float):
        raise bad_params(f"invalid argument: {value!r} is not a whole number")
    return value if isinstance(value, int) else quantity(value)


def data(value: Any) -> bytes:
    """Bytes in hex."""
    if not isinstance(value, str) or not _DATA.fullmatch(value):
        raise bad_params("invalid argument: not hex data")
    return bytes.fromhex(value[2:])


def address(value: Any) -> bytes:
    """Twenty bytes."""
    found = data(value)
    if len(found) != 20:
        raise bad_params("invalid argument: not an address")
    return found


def hash32(value: Any) -> bytes:
    """Thirty-two bytes."""
    found = data(value)
    if len(found) != 32:
        raise bad_params("invalid argument: not a hash")
    return found


def fields(value: Any, allowed: Sequence[str] | frozenset[str]) -> Mapping[str, Any]:
    """An object with none but the allowed fields; null is the same as absent."""
    if not isinstance(value, dict):
        raise bad_params("invalid argument: not an object")
    unknown = sorted(name for name in value if name not in allowed)
    if unknown:
        raise bad_params(f"invalid argument: {', '.join(unknown)} not supported here")
    return {name: one for name, one in value.items() if one is not None}


def call(value: Any) -> Call:
    """The transaction to try."""
    if isinstance(value, dict) and not value.get("accessList", True):
        value = {name: one for name, one in value.items() if name != "accessList"}
    given = fields(value, _CALL_FIELDS)
    if "data" in given and given.get("input", given["data"]) != given["data"]:
        raise bad_params('both "data" and "input" are set and not equal')
    max_fee, tip = _fees(given)
    return Call(
        sender=address(given["from"]) if "from" in given else bytes(20),
        to=address(given["to"]) if "to" in given else None,
        gas=quantity(given["gas"]) if "gas" in given else None,
        value=quantity(given.get("value", "0x0")),
        data=data(given.get("input", given.get("data", "0x"))),
        max_fee=max_fee,
        tip=tip,
    )


def _fees(given: Mapping[str, Any]) -> tuple[int, int]:
    """What a call offers for gas at most, and of it to whoever makes the block."""
    wanted = {name: quantity(given[name]) for name in _FEES if name in given}
    if "gasPrice" not in wanted:
        return wanted.get("maxFeePerGas", 0), wanted.get("maxPriorityFeePerGas", 0)
    if len(wanted) > 1:
        raise bad_params("both gasPrice and (maxFeePerGas or maxPriorityFeePerGas) specified")
    return wanted["gasPrice"], wanted["gasPrice"]
