"""A payment's own address, computed again from its route before anything is sent to it.

A server can lie. The address is a hash of the whole route, by a contract that passes money on as
the route says, so the wallet sends only to an address that follows from the route it was shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeAlias

from eth_hash.auto import keccak
from florin.v1.address_pb2 import AddressRoute, PayAddress

from florin_client.wallet.actions import WalletError
from florin_client.wallet.evm_steps import TRANSFER_SELECTOR, ZERO_ADDRESS
from florin_client.wallet.terms import OptionTerms, parse_evm_address, parse_option

# from gRPC, or from REST
AnyPayAddress: TypeAlias = "PayAddress | Mapping[str, Any]"

# Florin's contract PayForwarder, which has this address on every chain
FORWARDER: Final = "0x4c53a9762c58baf19894e6be52ade08817d8b3c2"

# distinguishes the forwarder's routes from those of the settlement contract
_KIND: Final = 3
_WORD_BYTES: Final = 32
_REFERENCE_CHARS: Final = 66
_UNITS_CHARS_MAX: Final = 78
# the code that creates a minimal proxy (ERC-1167), around the address of its code
_PROXY_START: Final = bytes.fromhex("3d602d80600a3d3981f3363d3d373d3d3d363d73")
_PROXY_END: Final = bytes.fromhex("5af43d82803e903d91602b57fd5bf3")
_MEMBERS: Final = ("address", "asset", "received", "missing", "route")
# the members of a route in REST
_ROUTE_MEMBERS: Final = {
    "forwarder": "forwarder",
    "chain_id": "chainId",
    "token": "token",
    "value": "value",
    "valid_before": "validBefore",
    "dest": "dest",
    "fee_to": "feeTo",
    "fee": "fee",
    "ref": "ref",
    "home": "home",
}


@dataclass(frozen=True, slots=True)
class TransferRoute:
    """The route of an address's money: `value` to `dest`, with `fee` to `fee_to`; the rest `home`.

    Addresses are lower-case; `token` is the zero address for native coin. `valid_before` is in Unix
    seconds.
    """

    forwarder: str
    chain_id: int
    token: str
    value: int
    valid_before: int
    dest: str
    fee_to: str
    fee: int
    ref: bytes
    home: str

    def compute_address(self) -> str:
        """Return the lower-case address that the forwarder gives to the route."""
        forwarder = bytes.fromhex(self.forwarder[2:])
        words = (
            _to_word(self.chain_id),
            forwarder.rjust(_WORD_BYTES, b"\0"),
            _to_word(_KIND),
            _to_address_word(self.token),
            _to_word(self.value),
            _to_word(self.valid_before),
            _to_address_word(self.dest),
            _to_address_word(self.fee_to),
            _to_word(self.fee),
            self.ref,
            _to_address_word(self.home),
        )
        # RLP of the forwarder and its first nonce: the code of its addresses
        vault = keccak(b"\xd6\x94" + forwarder + b"\x01")[12:]
        code_hash = keccak(_PROXY_START + vault + _PROXY_END)
        salt = keccak(b"".join(words))
        return "0x" + keccak(b"\xff" + forwarder + salt + code_hash)[12:].hex()


@dataclass(frozen=True, slots=True)
class AddressTransfer:
    """A transaction that sends `amount` to a payment's address; `token` is None for native coin."""

    method = "eth_sendTransaction"

    address: str
    token: str | None
    amount: int
    route: TransferRoute

    @property
    def call(self) -> tuple[str, int, bytes]:
        """Return receiver, native coin and data of the transaction."""
        if self.token is None:
            return self.address, self.amount, b""
        data = TRANSFER_SELECTOR + _to_address_word(self.address) + _to_word(self.amount)
        return self.token, 0, data


@dataclass(frozen=True, slots=True)
class TransferTerms:
    """A checked address: what is sent there, and until when (Unix seconds)."""

    terms: OptionTerms
    transfer: AddressTransfer
    deadline: int


def parse_pay_address(
    pay_address: AnyPayAddress, account: str, *, forwarder: str = FORWARDER
) -> TransferTerms:
    """Return the transfer of what is missing at a payment's address, from an account (CAIP-10).

    Raise WalletError unless the address follows from its route by the forwarder, and the route is
    for the asset and the amount that were shown.
    """
    members = _to_members(pay_address)
    route = _parse_route(members["route"])
    asset, amount = members["asset"], members["amount"]
    missing = _parse_units(members["missing"], "the missing amount")
    if missing == 0:
        raise WalletError("nothing is missing at the address")
    option = {"account": account, "amount": {"unit": f"caip19/{asset}", "value": str(missing)}}
    terms = parse_option(option)
    if not terms.is_evm:
        _reject(f"it is on {terms.chain_id}, which has no such addresses")
    _require_equal("the forwarder", route.forwarder, parse_evm_address(forwarder))
    _require_equal("the chain", f"eip155:{route.chain_id}", terms.chain_id)
    _require_equal("the token", route.token, terms.token or ZERO_ADDRESS)
    _require_equal("the price's asset", amount["unit"], f"caip19/{asset}")
    _require_equal("the price", _parse_units(amount["value"], "the price"), route.value)
    received = _parse_units(members["received"], "the received amount")
    _require_equal("the missing amount", missing, route.value - received)
    if route.fee > route.value or ZERO_ADDRESS in {route.dest, route.home}:
        _reject("its money goes nowhere, or its fee is above the price")
    if route.fee and route.fee_to == ZERO_ADDRESS:
        _reject("its fee has no receiver")
    address = parse_evm_address(members["address"])
    _require_equal("the address", address, route.compute_address())
    deadline = min(_parse_integer(members["expires_at"], "the end"), route.valid_before)
    return TransferTerms(terms, AddressTransfer(address, terms.token, missing, route), deadline)


def _to_members(pay_address: AnyPayAddress) -> dict[str, Any]:
    """Return the members that matter; WalletError if one of them is missing."""
    if isinstance(pay_address, PayAddress):
        amount = {"unit": pay_address.amount.unit, "value": pay_address.amount.value}
        members = {name: getattr(pay_address, name) for name in _MEMBERS}
        return {**members, "amount": amount, "expires_at": pay_address.expires_at}
    try:
        amount = {name: pay_address["amount"][name] for name in ("unit", "value")}
        members = {name: pay_address[name] for name in _MEMBERS}
        return {**members, "amount": amount, "expires_at": pay_address["expiresAt"]}
    except (KeyError, TypeError) as error:
        raise WalletError(f"the address cannot be parsed ({type(error).__name__})") from None


def _parse_route(route: object) -> TransferRoute:
    if isinstance(route, AddressRoute):
        members = {name: getattr(route, name) for name in _ROUTE_MEMBERS}
    elif isinstance(route, Mapping) and route.keys() >= {*_ROUTE_MEMBERS.values()}:
        members = {name: route[member] for name, member in _ROUTE_MEMBERS.items()}
    else:
        _reject("its route is not complete")
    addresses = {
        name: parse_evm_address(members[name])
        for name in ("forwarder", "token", "dest", "fee_to", "home")
    }
    return TransferRoute(
        **addresses,
        chain_id=_parse_integer(members["chain_id"], "the chain"),
        value=_parse_units(members["value"], "the value"),
        valid_before=_parse_integer(members["valid_before"], "the end"),
        fee=_parse_units(members["fee"], "the fee"),
        ref=_parse_reference(members["ref"]),
    )


def _parse_reference(text: object) -> bytes:
    if not isinstance(text, str) or len(text) != _REFERENCE_CHARS or not text.startswith("0x"):
        _reject("its reference is not valid")
    try:
        reference = bytes.fromhex(text[2:])
    except ValueError:
        _reject("its reference is not valid")
    if len(reference) != _WORD_BYTES:
        _reject("its reference is not valid")
    return reference


def _parse_units(text: object, what: str) -> int:
    """Return minor units in their only form, decimal digits without leading zeros."""
    if not isinstance(text, str) or not (text.isascii() and text.isdecimal()):
        _reject(f"{what} is {str(text)[:80]!r}, which is not an amount")
    if len(text) > _UNITS_CHARS_MAX or text != str(int(text)) or int(text).bit_length() > 256:
        _reject(f"{what} is {text[:80]!r}, which is not an amount")
    return int(text)


def _parse_integer(value: object, what: str) -> int:
    """Return a number of 64 bits, which JSON has as a number or as a text."""
    if isinstance(value, bool) or not isinstance(value, int):
        value = _parse_units(value, what)
    if not 0 <= value < 2**63:
        _reject(f"{what} is {value}")
    return value


def _to_word(value: int) -> bytes:
    return value.to_bytes(_WORD_BYTES, "big")


def _to_address_word(address: str) -> bytes:
    return bytes.fromhex(address[2:]).rjust(_WORD_BYTES, b"\0")


def _require_equal(what: str, value: object, expected: object) -> None:
    if value != expected:
        _reject(f"{what} is {str(value)[:120]} instead of {expected}")


def _reject(why: str) -> NoReturn:
    raise WalletError(f"the address does not match the payment: {why}")
