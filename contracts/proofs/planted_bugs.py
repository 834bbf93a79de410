"""Bugs to plant in the settlement contracts, which the campaigns must find."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class PlantedBug:
    """A change of one contract's source that breaks it; `original` occurs there once."""

    source: str
    original: str
    replacement: str


def _settler(original: str, replacement: str) -> PlantedBug:
    return PlantedBug("PaySettler.sol", original, replacement)


def _forwarder(original: str, replacement: str) -> PlantedBug:
    return PlantedBug("PayForwarder.sol", original, replacement)


PLANTED_BUGS: Mapping[str, PlantedBug] = {
    "the end is no part of the nonce": _settler(
        "                p.validBefore,\n", "                0,\n"
    ),
    "the way is no part of the nonce": _settler("                kind,\n", "                0,\n"),
    "a direct payment is made twice": _settler("isPaid[p.from][nonce] = true;", ""),
    "the fee stays here": _settler("if (fee > 0) _transfer(p.token, p.feeTo, fee, most);", ""),
    "any caller pays in the name of another account": _settler(
        "if (msg.sender != p.from) revert NotTheBuyer();", ""
    ),
    "a payment may be given less than its gas": _settler(
        "if (left - left / 64 < most + CALL_GAS) revert NotEnoughGas();", ""
    ),
    "any caller takes a payment without paying it out": _settler(
        "if (msg.sender != address(this)) revert NotThisContract();", ""
    ),
    "payments of other merchants are paid out together": _settler(
        "a.token == b.token && a.dest == b.dest && a.feeTo == b.feeTo",
        "a.token == b.token && a.feeTo == b.feeTo",
    ),
    "a refused sum stops its payments": _settler(
        "for (uint256 i = paidOut ? end : first; i < end; ++i) {",
        "for (uint256 i = end - first > 1 ? end : first; i < end; ++i) {",
    ),
    "a failed payment is part of the sum": _settler(
        "                share += p.value - p.fee;\n                fee += p.fee;\n            }",
        "            }\n            share += p.value - p.fee;\n            fee += p.fee;",
    ),
    "the fees of a sum stay here": _settler("                fee += p.fee;\n", ""),
    "a sum may use all gas": _settler(
        "if (most == 0) most = gasleft();\n        else _requireGas(most);", "most = gasleft();"
    ),
    "calls from within a batch are accepted": _settler("if (moving) revert Reentered();", ""),
    "a route is open after its end": _forwarder(
        "if (block.timestamp >= r.validBefore) revert TooLate();", ""
    ),
    "a route is open after its payment": _forwarder(
        "if (exists && !staysOpen[nonce]) revert RouteClosed();", ""
    ),
    "an early sweep keeps the route open for ever": _forwarder(
        "if (exists) delete staysOpen[nonce];", "if (exists) {}"
    ),
    "an early sweep closes the route": _forwarder("if (!closed) staysOpen[nonce] = true;", ""),
    "the payment goes home before its end": _forwarder(
        "if (!closed && _balance(r.token, place) < before) revert TooEarly();", ""
    ),
    "an early sweep keeps coin out": _forwarder(
        "if (!closed && r.token == address(0)) revert TooEarly();", ""
    ),
    "an address gets code for nothing": _forwarder("if (!moved) revert NothingThere();", ""),
    "the home is not in the salt": _forwarder(
        "                r.home\n", "                address(0)\n"
    ),
    "the merchant is not in the salt": _forwarder(
        "                r.dest,\n", "                address(0),\n"
    ),
    "the chain is not in the salt": _forwarder(
        "                r.chainId,\n", "                uint256(1),\n"
    ),
    "the forwarder is not in the salt and the address": _forwarder(
        "abi.encodePacked(bytes1(0xff), address(this), nonce, keccak256(code))",
        "abi.encodePacked(bytes1(0xff), address(1), nonce, keccak256(code))",
    ),
    "vaults obey any caller": _forwarder(
        "if (msg.sender != forwarder) revert NotTheForwarder();", ""
    ),
    "calls from within are accepted": _forwarder("if (moving) revert Reentered();", ""),
    "a token may keep a part": _forwarder(
        "if (isToken && _balance(r.token, r.dest) < before + share) revert Shortened();", ""
    ),
    "too little is enough": _forwarder(
        "if (_balance(r.token, place) < r.value) revert TooLittle();", ""
    ),
    "answers of tokens are not read": _forwarder(
        "default { ok := and(ok, and(gt(returndatasize(), 31), eq(mload(0), 1))) }", "default { }"
    ),
    "an address without code passes for a token": _forwarder(
        "case 0 { ok := and(ok, gt(extcodesize(asset), 0)) }", "case 0 { }"
    ),
    "an item may be given less than its gas": _forwarder(
        "if (left - left / 64 < most + CALL_GAS) revert NotEnoughGas();", "left;"
    ),
    "the forwarder itself runs errands": _forwarder(
        "try Errand(errand()).run(item.target, item.data) {} catch {}",
        "(bool ok,) = item.target.call(item.data); ok;",
    ),
    "a route of another chain is paid": _forwarder(
        "if (r.chainId != block.chainid) revert WrongChain();", ""
    ),
    "the merchant gets the excess": _forwarder(
        "Vault(place).pay(r.token, r.dest, share, r.feeTo, r.fee);",
        "Vault(place).pay(r.token, r.dest, _balance(r.token, place) - r.fee, r.feeTo, r.fee);",
    ),
    "the fee stays at the address": _forwarder("if (fee > 0) _transfer(asset, feeTo, fee);", ""),
    "a route may end in the contracts": _forwarder(
        "if (end == address(this) || end == code || end == runner) revert RouteEndsHere();", ""
    ),
}
