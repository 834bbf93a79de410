"""The check of a Solana cluster's receipt at a node that the caller names."""

from __future__ import annotations

from typing import Any

from solders.pubkey import Pubkey
from solders.signature import Signature

from florin_server.domain.caip import parse_asset
from florin_server.domain.chains.solana import spl
from florin_server.domain.payments.option_names import derive_reference
from florin_server.domain.receipts.receipt import Receipt
from florin_server.domain.receipts.verdict import CheckResult, ReceiptCheck
from florin_server.rails.connection.jsonrpc import ChainRpc, RpcError
from florin_server.rails.connection.node import require_result
from florin_server.rails.receipt_checks import (
    build_failed,
    build_passed,
    build_result,
    build_unknown,
    check_reference,
    compute_reference,
    require_single_chain,
)
from florin_server.rails.solana.paying.terms import AnyMessage, SolanaOptionTerms, to_address
from florin_server.rails.solana.reading.evidence import TransactionRecord, is_moved, parse_record
from florin_server.rails.solana.reading.node import (
    FINALIZED,
    SolanaNode,
    parse_number,
)
from florin_server.rails.solana.reading.signed import find_signed_message, list_memos
from florin_server.rails.solana.reading.transfers import find_paying_transfer
from florin_server.rails.types import TRANSFER_METHOD, RailUnavailable

_CHAIN = "solana:"
_COIN_DECIMALS = 9
_REFERENCE_CHARS = 32  # of the genesis hash, in CAIP-2


async def examine_receipt(rpc: ChainRpc, receipt: Receipt) -> list[CheckResult]:
    """Return the result of every check; only finalized data counts.

    Raise RailUnavailable if the node does not answer.
    """
    place, node = receipt.transaction, SolanaNode(rpc)
    try:
        require_single_chain(receipt)
        signature = Signature.from_string(place.hash)
        payer, mint = spl.parse_pubkey(to_address(receipt.payer)), _find_mint(receipt)
        spl.parse_pubkey(to_address(receipt.recipient))
    except ValueError:
        return [
            build_failed(
                ReceiptCheck.CONTENT, "the receipt does not name a payment on a Solana cluster"
            )
        ]
    config = {"commitment": FINALIZED, "encoding": "base64", "maxSupportedTransactionVersion": 0}
    genesis, transaction, newest, first = await node.batch(
        [
            ("getGenesisHash", ()),
            ("getTransaction", (str(signature), config)),
            ("getSlot", ({"commitment": FINALIZED},)),
            ("getFirstAvailableBlock", ()),
        ]
    )
    served = _CHAIN + str(require_result(genesis))[:_REFERENCE_CHARS]
    if served != place.chain:
        return [
            build_failed(
                ReceiptCheck.CHAIN,
                f"the node serves {served}, but the receipt is for {place.chain}",
            )
        ]
    results = [build_passed(ReceiptCheck.CHAIN, f"the node serves {served}")]
    if require_result(transaction) is None:
        return [*results, _build_missing(place.block, parse_number(newest), first)]
    seen, message = (
        parse_record(transaction, served),
        find_signed_message(transaction, signature),
    )
    if message is None:
        raise RailUnavailable("the node returned another transaction than requested")
    if seen.error is not None:
        return [
            *results,
            build_failed(ReceiptCheck.TRANSACTION, "it failed on the chain and moved nothing"),
        ]
    return [
        *results,
        build_passed(ReceiptCheck.TRANSACTION, "it is on this node's chain and succeeded"),
        build_result(
            ReceiptCheck.BLOCK,
            seen.slot == place.block,
            f"slot {place.block}",
            f"it is in slot {seen.slot}",
        ),
        build_passed(ReceiptCheck.FINALITY, "the cluster has finalized it"),
        *_check_payment(receipt, payer, mint, message, seen),
    ]


def _build_missing(slot: int, newest: int, first: Any) -> CheckResult:
    """Return the check for a transaction that the node does not have."""
    if newest < slot:
        return build_unknown(
            ReceiptCheck.TRANSACTION, f"the node's newest final slot is only {newest}"
        )
    if isinstance(first, RpcError) or parse_number(first) > slot:
        message = "the node no longer has blocks that old: use a node that keeps all blocks"
        return build_unknown(ReceiptCheck.TRANSACTION, message)
    return build_failed(ReceiptCheck.TRANSACTION, "it is not on this node's chain")


def _check_payment(
    receipt: Receipt,
    payer: Pubkey,
    mint: Pubkey | None,
    message: AnyMessage,
    record: TransactionRecord,
) -> list[CheckResult]:
    keys: list[Pubkey] = message.account_keys
    ref = compute_reference(receipt)
    expected = None if ref is None else str(Pubkey.from_bytes(ref))
    signers = keys[: message.header.num_required_signatures]
    terms = _find_terms(receipt, mint, message)
    position = None if terms is None else terms.find_position(message)
    pays = position is not None and position == receipt.transaction.position
    exact = terms is not None and is_moved(terms, to_address(receipt.payer), message, record)
    decimals = _COIN_DECIMALS if position is None else _parse_decimals(message, position)
    return [
        check_reference(receipt, _find_reference(receipt, message, expected), expected),
        build_result(
            ReceiptCheck.PAYER,
            payer in signers,
            f"{receipt.payer} signed it",
            "the payer did not sign it",
        ),
        build_result(
            ReceiptCheck.RECIPIENT,
            pays,
            f"instruction {position} pays {receipt.recipient}",
            f"instruction {receipt.transaction.position} does not pay {receipt.recipient}",
        ),
        build_result(
            ReceiptCheck.AMOUNT,
            exact and decimals == receipt.paid.decimals,
            f"accounts changed by {receipt.paid.value} minor units, and nothing else",
            "accounts did not change by what the receipt says",
        ),
    ]


def _find_reference(receipt: Receipt, message: AnyMessage, expected: str | None) -> str:
    """Return the reference that a message reports: its notes, or that of its transfer's payment.

    The address of a payment stands for the expected reference, as it belongs to this payment alone.
    """
    memos = " ".join(list_memos(message))
    if receipt.option.method != TRANSFER_METHOD or expected is None:
        return memos
    salt = bytes.fromhex(receipt.option.salt)
    address = str(Pubkey.from_bytes(derive_reference(salt, receipt.sub)))
    return memos if find_paying_transfer(message, address) is None else expected


def _parse_decimals(message: AnyMessage, position: int) -> int:
    """Return the decimals in a token transfer, which the chain checks; the coin has its own."""
    compiled_instruction = message.instructions[position]
    if message.account_keys[compiled_instruction.program_id_index] == spl.SYSTEM:
        return _COIN_DECIMALS
    return int.from_bytes(bytes(compiled_instruction.data)[-1:])


def _find_terms(
    receipt: Receipt, mint: Pubkey | None, message: AnyMessage
) -> SolanaOptionTerms | None:
    """Return the receipt's terms; None if a token was paid but no token program is named."""
    named = set(message.account_keys)
    programs = (spl.SYSTEM,) if mint is None else spl.PROGRAMS
    program = next((pubkey for pubkey in programs if pubkey in named), None)
    if program is None:
        return None
    return SolanaOptionTerms(
        chain_id=receipt.transaction.chain,
        mint=str(spl.SYSTEM if mint is None else mint),
        program=str(program),
        decimals=receipt.paid.decimals,
        value=int(receipt.paid.value),
        dest=to_address(receipt.recipient),
        fee_to=None if receipt.fee_to is None else to_address(receipt.fee_to),
        fee=int(receipt.paid.fee),
        settled=receipt.settled,
        ref=receipt.option.reference,
    )


def _find_mint(receipt: Receipt) -> Pubkey | None:
    """Return the token's mint; None for the native coin."""
    asset = parse_asset(receipt.paid.asset)
    return None if asset.namespace == "slip44" else spl.parse_pubkey(asset.reference)
