"""Transactions that wallets sent themselves, found by an address that they name.

Anyone can name the address, and copy the note of a payment. So a listing decides nothing: the whole
transaction is read, its signatures are checked, and what it moved must be exactly what was offered.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from typing import Any, Final

from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.signature import Signature

from florin_server.domain.payments.option_names import derive_reference
from florin_server.domain.payments.payment import Payment, PaymentOption
from florin_server.rails.connection.jsonrpc import RpcError
from florin_server.rails.connection.node import require_result
from florin_server.rails.solana.paying.terms import AnyMessage, SolanaOptionTerms, to_address
from florin_server.rails.solana.reading.evidence import is_moved, parse_record
from florin_server.rails.solana.reading.node import (
    FINALIZED,
    SolanaNode,
    parse_number,
    parse_object,
)
from florin_server.rails.solana.reading.signed import find_signed_message, list_memos
from florin_server.rails.solana.reading.transfers import is_paid_by_transfer
from florin_server.rails.solana.settings import SolanaChainSettings
from florin_server.rails.types import (
    AddressMention,
    MentionQuery,
    RailUnavailable,
    RequestedEvents,
    SettlementEvent,
)

_log = logging.getLogger(__name__)

PAGE_SIZE = 1000  # in one answer; nodes give no more
UNSUPPORTED_VERSION = -32015  # a transaction's version is above the requested version
TRANSACTION_CONFIG: Final[dict[str, object]] = {
    "commitment": FINALIZED,
    "encoding": "base64",
    "maxSupportedTransactionVersion": 0,
}
# nodes' form of a transaction's only memo, which is a reference in base58
_MEMO = re.compile(r"\[\d+\] ([1-9A-HJ-NP-Za-km-z]{32,44})")


def derive_address(payment: Payment) -> str:
    """Return a key without an owner, derived from the payment's secret salt and its id."""
    return str(Pubkey.from_bytes(derive_reference(payment.salt, payment.id)))


def log_unread(chain: SolanaChainSettings, signature: str, error: RailUnavailable) -> None:
    """Log why a transaction is read again."""
    _log.warning("%s: transaction %s is read again: %s", chain.name, signature, error)


async def list_mentions(
    node: SolanaNode, queries: Sequence[MentionQuery]
) -> list[list[AddressMention] | None]:
    """Return for each query a page of finalized transactions, the newest first.

    A page that the node did not return is None. RailUnavailable if it returned none at all.
    """
    calls = []
    for query in queries:
        config = {"limit": PAGE_SIZE, "commitment": FINALIZED}
        config |= {"before": query.before} if query.before else {}
        config |= {"until": query.until} if query.until else {}
        calls.append(("getSignaturesForAddress", (query.address, config)))
    pages: list[list[AddressMention] | None] = []
    failure = None
    for query, answer in zip(queries, await node.batch(calls), strict=True):
        try:
            pages.append(_parse_mentions(answer))
        except RailUnavailable as error:
            _log.warning("transactions of %s are listed again: %s", query.address, error)
            pages.append(None)
            failure = error
    if failure is not None and not any(page is not None for page in pages):
        raise failure
    return pages


def _parse_mentions(answer: Any) -> list[AddressMention]:
    entries = require_result(answer)
    if not isinstance(entries, list):
        raise RailUnavailable("the node returned something other than a list")
    mentions = []
    for entry in map(parse_object, entries):
        memo = _MEMO.fullmatch(str(entry.get("memo")))
        # a failed transaction moved nothing; its error is null otherwise, and never left out
        succeeded = "err" in entry and entry["err"] is None
        try:
            signature = str(Signature.from_string(str(entry.get("signature"))))
        except ValueError as error:
            raise RailUnavailable("the node returned something other than a signature") from error
        reference = memo[1] if memo and succeeded else ""
        mentions.append(
            AddressMention(
                signature,
                reference,
                is_failed=not succeeded,
                block_number=_find_number(entry.get("slot")),
            )
        )
    return mentions


def _find_number(value: object) -> int | None:
    """Return a number; None if the node did not return one."""
    try:
        return parse_number(value)
    except RailUnavailable:
        return None


async def find_events(
    node: SolanaNode, chain: SolanaChainSettings, candidates: Sequence[tuple[str, PaymentOption]]
) -> RequestedEvents:
    """Return the settlement events of finalized transactions that pay exactly their option.

    A transaction that the node cannot return, or not with all that is needed, counts as unread.
    """
    answers = await node.batch(
        [("getTransaction", (signature, TRANSACTION_CONFIG)) for signature, _ in candidates]
    )
    events, unread = [], set()
    for (signature, option), answer in zip(candidates, answers, strict=True):
        try:
            event = _find_event(chain, signature, option, answer)
        except RailUnavailable as error:
            log_unread(chain, signature, error)
            unread.add(signature)
            continue
        if event is not None:
            events.append(event)
    return RequestedEvents(tuple(events), frozenset(unread))


def _find_event(
    chain: SolanaChainSettings, signature: str, option: PaymentOption, answer: Any
) -> SettlementEvent | None:
    """Return the event if the transaction pays the option; None if it never does."""
    if isinstance(answer, RpcError) and answer.code == UNSUPPORTED_VERSION:
        return None
    if require_result(answer) is None:
        raise RailUnavailable("the node does not have it")
    record = parse_record(answer, chain.name)
    message = find_signed_message(answer, Signature.from_string(signature))
    if message is None:
        raise RailUnavailable("the node returned another transaction than requested")
    if isinstance(message, MessageV0) and message.address_table_lookups:
        # what it names is not in its bytes; Florin never hands out such a transaction
        return None
    terms, payer = SolanaOptionTerms.from_option(option), to_address(option.payer)
    signers = message.account_keys[: message.header.num_required_signatures]
    if Pubkey.from_string(payer) not in signers:
        return None
    if terms.named:
        is_paid = is_paid_by_transfer(terms, payer, message, record)
    else:
        # a second note could be another payment's: one transfer pays one payment
        is_paid = list_memos(message) == [terms.ref] and is_moved(terms, payer, message, record)
    return build_event(terms, payer, signature, message, answer) if is_paid else None


def build_event(
    terms: SolanaOptionTerms, payer: str, signature: str, message: AnyMessage, answer: Any
) -> SettlementEvent:
    """Return the event of a transaction that pays an option; `answer` is the node's."""
    transaction = parse_object(answer)
    return SettlementEvent(
        ref=terms.ref,
        tx_hash=signature,
        block_number=parse_number(transaction.get("slot")),
        block_hash="",
        payer=payer,
        dest=terms.dest,
        fee_to=terms.fee_to or "",
        token=terms.mint,
        value=terms.value,
        fee=terms.fee,
        nonce="",
        position=terms.find_position(message),
        time=parse_number(transaction.get("blockTime")),
    )
