"""Asking a Solana node, and reading its answers strictly.

A refused or misshapen answer is RailUnavailable: it tells nothing about what was asked.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from solders.hash import Hash
from solders.pubkey import Pubkey

from florin_server.chains.solana import spl
from florin_server.rails.connection.jsonrpc import Call, RpcError
from florin_server.rails.connection.node import AnyNode, answered
from florin_server.rails.types import RailUnavailable

ACCOUNTS_MAX = 100  # that nodes tell in one call
STATUSES_MAX = 256
# the only commitment that is asked for: since Alpenglow blocks are final after 150 ms, `confirmed`
# means the same, and clusters are to refuse it. A blockhash of a final block lapses by time only
FINALIZED = "finalized"
_DIGITS = 20  # of the largest number of 64 bits
_EXACT_FLOAT = float(2**53)
# of a token account: what every program has, and the kind of what Token-2022 has more
_SLICE = {"offset": 0, "length": spl.ACCOUNT_BYTES + 1}


@dataclass(frozen=True, slots=True)
class AccountView:
    """An account as the node tells it; `data` may be its beginning only."""

    lamports: int
    owner: Pubkey
    data: bytes

    @property
    def tokens(self) -> spl.TokenAccount | None:
        """What it holds of a token; None if it is no token account."""
        return spl.token_account(self.data) if self.owner in spl.PROGRAMS else None


@dataclass(frozen=True, slots=True)
class SignatureStatus:
    """What became of a transaction; `error` is None if it worked."""

    slot: int
    error: Any
    final: bool


@dataclass(frozen=True, slots=True)
class Blockhash:
    """A recent blockhash: good up to the height `last_valid`, in no block before `slot`."""

    hash: Hash
    last_valid: int
    slot: int


class Node(AnyNode):
    """One cluster's node."""

    async def accounts(self, keys: Sequence[Pubkey]) -> list[AccountView | None]:
        """Accounts in the order asked, None where there is none; one batched read."""
        calls = [
            accounts_call(keys[first : first + ACCOUNTS_MAX])
            for first in range(0, len(keys), ACCOUNTS_MAX)
        ]
        answers = await self.batch(calls)
        found = [one for answer in answers for one in account_views(answer)]
        if len(found) != len(keys):
            raise RailUnavailable("the node did not tell about every account")
        return found

    async def statuses(
        self, signatures: Sequence[str], least: int = 0
    ) -> dict[str, SignatureStatus]:
        """What became of transactions; those that the node does not know are left out.

        A node that is not as far as the slot `least` knows nothing of use.
        """
        parts = [
            signatures[first : first + STATUSES_MAX]
            for first in range(0, len(signatures), STATUSES_MAX)
        ]
        history = {"searchTransactionHistory": True}
        answers = await self.batch([("getSignatureStatuses", (part, history)) for part in parts])
        found: dict[str, SignatureStatus] = {}
        for part, answer in zip(parts, answers, strict=True):
            for signature, one in zip(part, _statuses(part, answer, least), strict=True):
                if one is not None:
                    found[signature] = _status(one)
        return found

    async def status(self, signature: str, least: int) -> tuple[SignatureStatus | None, int | None]:
        """What became of a transaction, and the first slot that the same node has not forgotten.

        The latter is None if it does not tell. One batched read; `least` as for `statuses`.
        """
        asked = ([signature], {"searchTransactionHistory": True})
        answer, first = await self.batch(
            [("getSignatureStatuses", asked), ("getFirstAvailableBlock", ())]
        )
        (one,) = _statuses([signature], answer, least)
        status = None if one is None else _status(one)
        return status, None if isinstance(first, RpcError) else number(first)


async def require_coin(node: Node, account: Pubkey, lamports: int) -> None:
    """RailUnavailable if an account has less than it needs."""
    told = await node.ask("getBalance", str(account), {"commitment": FINALIZED})
    if number(valued(told)) < lamports:
        raise RailUnavailable(f"{account} has less than the {lamports} lamports that this takes")


async def fresh_blockhash(node: Node) -> Blockhash:
    """The newest blockhash."""
    return blockhash_of(await node.ask("getLatestBlockhash", {"commitment": FINALIZED}))


def blockhash_of(answer: Any) -> Blockhash:
    """The blockhash in an answer."""
    told = record(valued(answer))
    try:
        found = Hash.from_string(str(told.get("blockhash")))
    except ValueError as error:
        raise RailUnavailable("the node told no blockhash") from error
    return Blockhash(found, number(told.get("lastValidBlockHeight")), slot_of(answer))


def slot_of(answer: Any) -> int:
    """The slot that an answer was true in."""
    return number(record(record(answer).get("context")).get("slot"))


def accounts_call(keys: Sequence[Pubkey], commitment: str = FINALIZED) -> Call:
    """Asks for accounts, as many as one call may ask for."""
    config = {"commitment": commitment, "encoding": "base64", "dataSlice": _SLICE}
    return ("getMultipleAccounts", ([str(key) for key in keys], config))


def account_views(answer: Any) -> list[AccountView | None]:
    """The accounts in an answer."""
    told = valued(answer)
    if not isinstance(told, list):
        raise RailUnavailable("the node answered something else than accounts")
    return [None if one is None else account_view(one) for one in told]


def account_view(told: Any) -> AccountView:
    """One account."""
    one = record(told)
    data = one.get("data")
    if not isinstance(data, list) or len(data) != 2 or data[1] != "base64":
        raise RailUnavailable("the node answered an account in another encoding")
    try:
        return AccountView(
            lamports=number(one.get("lamports")),
            owner=spl.pubkey(str(one.get("owner"))),
            data=base64.b64decode(str(data[0]), validate=True),
        )
    except (ValueError, binascii.Error) as error:
        raise RailUnavailable("the node answered an account that cannot be read") from error


def record(answer: Any) -> Mapping[str, Any]:
    """An object."""
    value = answered(answer)
    if not isinstance(value, dict):
        raise RailUnavailable("the node answered something else than an object")
    return value


def valued(answer: Any) -> Any:
    """What an answer tells, without the slot that it was true in."""
    return record(answer).get("value")


def number(value: Any) -> int:
    """Return a number, not negative.

    Some nodes and proxies write numbers as texts, or as floats as long as those are exact.
    """
    found = answered(value)
    if isinstance(found, str) and found.isascii() and found.isdecimal() and len(found) <= _DIGITS:
        return int(found)
    if isinstance(found, float) and found.is_integer() and found < _EXACT_FLOAT:
        found = int(found)
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        raise RailUnavailable("the node answered something else than a number")
    return found


def _statuses(signatures: Sequence[str], answer: Any, least: int) -> list[Any]:
    """What an answer tells of each transaction; a node that is not so far knows nothing of use."""
    if slot_of(answer) < least:
        raise RailUnavailable("the node lags behind what was seen before")
    told = valued(answer)
    if not isinstance(told, list) or len(told) != len(signatures):
        raise RailUnavailable("the node did not tell about every transaction")
    return told


def _status(told: Any) -> SignatureStatus:
    one = record(told)
    if "err" not in one:
        raise RailUnavailable("the node answered a status without its error")
    return SignatureStatus(
        slot=number(one.get("slot")),
        # whether it worked comes first: a failed transaction is confirmed like any other
        error=one["err"],
        # the count of confirmations is null then, and a tag beside another count is no proof
        final=one.get("confirmationStatus") == FINALIZED and one.get("confirmations") is None,
    )
