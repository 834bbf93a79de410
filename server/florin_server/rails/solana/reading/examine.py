"""A receipt on a Solana cluster, as one node that somebody names tells it."""

from __future__ import annotations

import asyncio
import base64
import binascii
from typing import Any

from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from florin_server.chains.solana import spl
from florin_server.domain.caip import parse_asset
from florin_server.domain.receipts.receipt import Receipt
from florin_server.domain.receipts.verdict import Check, Result
from florin_server.rails.connection.jsonrpc import Rpc, RpcError
from florin_server.rails.connection.node import answered
from florin_server.rails.examining import (
    either,
    failed,
    of_payment,
    passed,
    reference_of,
    require_of_one_chain,
    unknown,
)
from florin_server.rails.solana.paying.terms import Terms, bare
from florin_server.rails.solana.reading.evidence import Record, moved, record_of
from florin_server.rails.solana.reading.node import FINALIZED, Node, number, record
from florin_server.rails.types import RailUnavailable

_CHAIN = "solana:"
_COIN_DECIMALS = 9
_REFERENCE_CHARS = 32  # of the genesis hash, in CAIP-2


async def examine(rpc: Rpc, said: Receipt) -> list[Result]:
    """What came of every check; only what is finalized counts.

    RailUnavailable if the node does not answer.
    """
    place, node = said.transaction, Node(rpc)
    try:
        require_of_one_chain(said)
        signature = Signature.from_string(place.hash)
        payer, mint = spl.pubkey(bare(said.payer)), _mint(said)
        spl.pubkey(bare(said.recipient))
    except ValueError:
        return [failed(Check.CONTENT, "it does not name a payment of a Solana cluster")]
    config = {"commitment": FINALIZED, "encoding": "base64", "maxSupportedTransactionVersion": 0}
    genesis, told, newest, first = await node.batch(
        [
            ("getGenesisHash", ()),
            ("getTransaction", (str(signature), config)),
            ("getSlot", ({"commitment": FINALIZED},)),
            ("getFirstAvailableBlock", ()),
        ]
    )
    served = _CHAIN + str(answered(genesis))[:_REFERENCE_CHARS]
    if served != place.chain:
        return [
            failed(Check.CHAIN, f"the node serves {served}, and the receipt is of {place.chain}")
        ]
    found = [passed(Check.CHAIN, f"the node serves {served}")]
    if answered(told) is None:
        return [*found, _missing(place.block, number(newest), first)]
    seen, message = record_of(told, served), _signed(told, signature)
    if message is None:
        raise RailUnavailable("the node answered another transaction than it was asked for")
    if seen.error is not None:
        return [*found, failed(Check.TRANSACTION, "it failed on the chain, and moved nothing")]
    return [
        *found,
        passed(Check.TRANSACTION, "it is in the chain that this node knows, and worked"),
        either(
            Check.BLOCK,
            seen.slot == place.block,
            f"slot {place.block}",
            f"it stands in slot {seen.slot}",
        ),
        passed(Check.FINALITY, "the cluster has finalized it"),
        *_payment(said, payer, mint, message, seen),
    ]


def _missing(slot: int, newest: int, first: Any) -> Result:
    """What it tells that a node has no such transaction."""
    if newest < slot:
        return unknown(Check.TRANSACTION, f"slot {newest} is the newest that the node has final")
    if isinstance(first, RpcError) or number(first) > slot:
        told = "the node has forgotten blocks that old: ask one that keeps all"
        return unknown(Check.TRANSACTION, told)
    return failed(Check.TRANSACTION, "it is not in the chain that this node knows")


def _signed(told: Any, signature: Signature) -> MessageV0 | None:
    """The message of the transaction that has a signature, each one of it good; None otherwise."""
    content = record(told).get("transaction")
    if not isinstance(content, list) or not content or not isinstance(content[0], str):
        return None
    try:
        found = VersionedTransaction.from_bytes(base64.b64decode(content[0], validate=True))
        found.sanitize()
        good = found.signatures[:1] == [signature] and all(found.verify_with_results())
    except (KeyboardInterrupt, SystemExit, asyncio.CancelledError):
        raise
    except (binascii.Error, ValueError):
        return None
    except BaseException:  # noqa: BLE001  (a library in Rust panics with an error that is no Exception)
        return None
    return found.message if good and isinstance(found.message, MessageV0) else None


def _payment(
    said: Receipt, payer: Pubkey, mint: Pubkey | None, message: MessageV0, seen: Record
) -> list[Result]:
    keys: list[Pubkey] = message.account_keys
    memos = [
        bytes(one.data).decode(errors="replace")
        for one in message.instructions
        if keys[one.program_id_index] == spl.MEMO
    ]
    ref = reference_of(said)
    signers = keys[: message.header.num_required_signatures]
    terms = _terms(said, mint, message)
    position = None if terms is None else terms.position_in(message)
    pays = position is not None and position == said.transaction.position
    exact = terms is not None and moved(terms, bare(said.payer), message, seen)
    decimals = _COIN_DECIMALS if position is None else _decimals(message, position)
    return [
        of_payment(said, " ".join(memos), None if ref is None else str(Pubkey.from_bytes(ref))),
        either(
            Check.PAYER, payer in signers, f"{said.payer} signed it", "the payer did not sign it"
        ),
        either(
            Check.RECIPIENT,
            pays,
            f"instruction {position} pays {said.recipient}",
            f"instruction {said.transaction.position} does not pay {said.recipient}",
        ),
        either(
            Check.AMOUNT,
            exact and decimals == said.paid.decimals,
            f"accounts changed by {said.paid.value} minor units, and nothing else",
            "accounts did not change by what the receipt says",
        ),
    ]


def _decimals(message: MessageV0, position: int) -> int:
    """Those that a transfer of a token names, and the chain compares; the coin has its own."""
    one = message.instructions[position]
    if message.account_keys[one.program_id_index] == spl.SYSTEM:
        return _COIN_DECIMALS
    return int.from_bytes(bytes(one.data)[-1:])


def _terms(said: Receipt, mint: Pubkey | None, message: MessageV0) -> Terms | None:
    """What was promised; None if the message names no token program, where a token was paid."""
    named = set(message.account_keys)
    programs = (spl.SYSTEM,) if mint is None else spl.PROGRAMS
    program = next((one for one in programs if one in named), None)
    if program is None:
        return None
    return Terms(
        chain_id=said.transaction.chain,
        mint=str(spl.SYSTEM if mint is None else mint),
        program=str(program),
        decimals=said.paid.decimals,
        value=int(said.paid.value),
        dest=bare(said.recipient),
        fee_to=None if said.fee_to is None else bare(said.fee_to),
        fee=int(said.paid.fee),
        settled=said.settled,
        ref=said.option.reference,
    )


def _mint(said: Receipt) -> Pubkey | None:
    """The token; None for the chain's own coin."""
    asset = parse_asset(said.paid.asset)
    return None if asset.namespace == "slip44" else spl.pubkey(asset.reference)
