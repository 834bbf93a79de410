"""Calls to a Solana node, and strict parsing of its answers.

A refused or malformed answer raises RailUnavailable: it answers nothing about the question.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from solders.hash import Hash
from solders.pubkey import Pubkey

from florin_server.domain.chains.solana import spl
from florin_server.rails.connection.jsonrpc import RpcCall, RpcError
from florin_server.rails.connection.node import ChainNode, require_result
from florin_server.rails.types import RailUnavailable

ACCOUNTS_MAX = 100  # that nodes return in one call
STATUSES_MAX = 256
# transactions of an address that nodes return in one call, and how many calls are made
_LISTED_MAX, _LISTED_PAGES = 1000, 10
# The only commitment in use. Since Alpenglow blocks are final after 150 ms, `confirmed` means the
# same, and clusters will refuse it. A blockhash of a final block expires only by time.
FINALIZED = "finalized"
_DIGITS = 20  # of the largest number of 64 bits
_EXACT_FLOAT = float(2**53)
# of a token account: the common part of all programs, and Token-2022's account type
_SLICE = {"offset": 0, "length": spl.ACCOUNT_BYTES + 1}


@dataclass(frozen=True, slots=True)
class AccountView:
    """An account as the node reports it; `data` may be only its beginning."""

    lamports: int
    owner: Pubkey
    data: bytes

    @property
    def token_account(self) -> spl.TokenAccount | None:
        """Return its token balance; None if it is not a token account."""
        return spl.parse_token_account(self.data) if self.owner in spl.PROGRAMS else None


@dataclass(frozen=True, slots=True)
class SignatureStatus:
    """The status of a transaction; `error` is None if it succeeded."""

    slot: int
    error: Any
    is_final: bool


@dataclass(frozen=True, slots=True)
class RecentBlockhash:
    """A recent blockhash: valid up to the height `last_valid_height`, in no block before `slot`."""

    hash: Hash
    last_valid_height: int
    slot: int


class SolanaNode(ChainNode):
    """The node of one cluster."""

    async def get_accounts(self, keys: Sequence[Pubkey]) -> list[AccountView | None]:
        """Return accounts in the order requested, None for a missing account; one batched read."""
        calls = [
            build_accounts_call(keys[first : first + ACCOUNTS_MAX])
            for first in range(0, len(keys), ACCOUNTS_MAX)
        ]
        answers = await self.batch(calls)
        accounts = [account for answer in answers for account in parse_account_views(answer)]
        if len(accounts) != len(keys):
            raise RailUnavailable("the node did not return every account")
        return accounts

    async def list_statuses(
        self, signatures: Sequence[str], min_slot: int = 0
    ) -> dict[str, SignatureStatus]:
        """Return the statuses of transactions, without those that the node does not know.

        Raise RailUnavailable if the node has not reached the slot `min_slot`.
        """
        parts = [
            signatures[first : first + STATUSES_MAX]
            for first in range(0, len(signatures), STATUSES_MAX)
        ]
        history = {"searchTransactionHistory": True}
        answers = await self.batch([("getSignatureStatuses", (part, history)) for part in parts])
        statuses: dict[str, SignatureStatus] = {}
        for part, answer in zip(parts, answers, strict=True):
            for signature, statuse in zip(
                part, _parse_statuses(part, answer, min_slot), strict=True
            ):
                if statuse is not None:
                    statuses[signature] = _parse_status(statuse)
        return statuses

    async def get_status(
        self, signature: str, min_slot: int
    ) -> tuple[SignatureStatus | None, int | None]:
        """Return a transaction's status, and the first slot that the same node still has.

        The slot is None if the node does not report it. One batched read; `min_slot` as for
        `statuses`.
        """
        status_params = ([signature], {"searchTransactionHistory": True})
        answer, first = await self.batch(
            [("getSignatureStatuses", status_params), ("getFirstAvailableBlock", ())]
        )
        (reported_status,) = _parse_statuses([signature], answer, min_slot)
        status = None if reported_status is None else _parse_status(reported_status)
        return status, None if isinstance(first, RpcError) else parse_number(first)

    async def is_listed(self, address: str, signature: str, since: int, min_slot: int) -> bool:
        """Return whether the index of an address has a transaction from the slot `since` on.

        Nodes have this index beside that of statuses. Only the newest transactions of a very busy
        address are searched. Raise RailUnavailable if the node has not reached `min_slot`.
        """
        config: dict[str, Any] = {
            "commitment": FINALIZED,
            "limit": _LISTED_MAX,
            "minContextSlot": min_slot,
        }
        for _ in range(_LISTED_PAGES):
            answer = await self.call("getSignaturesForAddress", address, config)
            if not isinstance(answer, list):
                raise RailUnavailable("the node returned something other than a list")
            entries = [parse_object(entry) for entry in answer]
            signatures = [str(entry.get("signature")) for entry in entries]
            if signature in signatures:
                return True
            if len(entries) < _LISTED_MAX or parse_number(entries[-1].get("slot")) < since:
                return False
            config["before"] = signatures[-1]
        return False


async def require_coin(node: SolanaNode, account: Pubkey, lamports: int) -> None:
    """Raise RailUnavailable if an account has less than it needs."""
    balance = await node.call("getBalance", str(account), {"commitment": FINALIZED})
    if parse_number(parse_value(balance)) < lamports:
        raise RailUnavailable(f"{account} has less than the {lamports} lamports that this needs")


async def get_blockhash(node: SolanaNode) -> RecentBlockhash:
    """Return the newest blockhash."""
    return parse_blockhash(await node.call("getLatestBlockhash", {"commitment": FINALIZED}))


def parse_blockhash(answer: Any) -> RecentBlockhash:
    """Parse the blockhash in an answer."""
    value = parse_object(parse_value(answer))
    try:
        blockhash = Hash.from_string(str(value.get("blockhash")))
    except ValueError as error:
        raise RailUnavailable("the node returned no blockhash") from error
    return RecentBlockhash(
        blockhash, parse_number(value.get("lastValidBlockHeight")), parse_slot(answer)
    )


def parse_slot(answer: Any) -> int:
    """Return the slot of an answer."""
    return parse_number(parse_object(parse_object(answer).get("context")).get("slot"))


def build_accounts_call(keys: Sequence[Pubkey], commitment: str = FINALIZED) -> RpcCall:
    """Build the call that reads accounts, at most as many as one call can read."""
    config = {"commitment": commitment, "encoding": "base64", "dataSlice": _SLICE}
    return ("getMultipleAccounts", ([str(key) for key in keys], config))


def parse_account_views(answer: Any) -> list[AccountView | None]:
    """Parse the accounts in an answer."""
    value = parse_value(answer)
    if not isinstance(value, list):
        raise RailUnavailable("the node returned something other than accounts")
    return [None if item is None else parse_account_view(item) for item in value]


def parse_account_view(value: Any) -> AccountView:
    """Parse one account."""
    account = parse_object(value)
    data = account.get("data")
    if not isinstance(data, list) or len(data) != 2 or data[1] != "base64":
        raise RailUnavailable("the node returned an account in another encoding")
    try:
        return AccountView(
            lamports=parse_number(account.get("lamports")),
            owner=spl.parse_pubkey(str(account.get("owner"))),
            data=base64.b64decode(str(data[0]), validate=True),
        )
    except (ValueError, binascii.Error) as error:
        raise RailUnavailable("the node returned an account that cannot be read") from error


def parse_object(answer: Any) -> Mapping[str, Any]:
    """Parse an object."""
    value = require_result(answer)
    if not isinstance(value, dict):
        raise RailUnavailable("the node returned something other than an object")
    return value


def parse_value(answer: Any) -> Any:
    """Return the value in an answer, without its slot."""
    return parse_object(answer).get("value")


def parse_number(value: Any) -> int:
    """Return a number that is not negative.

    Some nodes and proxies write numbers as texts, or as floats as long as these are exact.
    """
    result = require_result(value)
    if (
        isinstance(result, str)
        and result.isascii()
        and result.isdecimal()
        and len(result) <= _DIGITS
    ):
        return int(result)
    if isinstance(result, float) and result.is_integer() and result < _EXACT_FLOAT:
        result = int(result)
    if not isinstance(result, int) or isinstance(result, bool) or result < 0:
        raise RailUnavailable("the node returned something other than a number")
    return result


def _parse_statuses(signatures: Sequence[str], answer: Any, min_slot: int) -> list[Any]:
    """Return the answer for each transaction; raise RailUnavailable below the slot `min_slot`."""
    if parse_slot(answer) < min_slot:
        raise RailUnavailable("the node lags behind what was seen before")
    statuses = parse_value(answer)
    if not isinstance(statuses, list) or len(statuses) != len(signatures):
        raise RailUnavailable("the node did not return every transaction")
    return statuses


def _parse_status(value: Any) -> SignatureStatus:
    status = parse_object(value)
    if "err" not in status:
        raise RailUnavailable("the node returned a status without its error")
    return SignatureStatus(
        slot=parse_number(status.get("slot")),
        # success is a separate field: a failed transaction is confirmed like any other
        error=status["err"],
        # the count of confirmations is null then, and a tag beside another count is not proof
        is_final=status.get("confirmationStatus") == FINALIZED
        and status.get("confirmations") is None,
    )
