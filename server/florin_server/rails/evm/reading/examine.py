"""The check of an EVM chain's receipt at a node that the caller names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from florin_server.domain.caip import parse_asset
from florin_server.domain.chains.evm import abi
from florin_server.domain.receipts.receipt import Receipt
from florin_server.domain.receipts.verdict import CheckOutcome, CheckResult, ReceiptCheck
from florin_server.rails.connection.jsonrpc import ChainRpc, RpcError
from florin_server.rails.evm import settler
from florin_server.rails.evm.paying.payable import DECIMALS
from florin_server.rails.evm.paying.terms import ZERO_ADDRESS, to_address
from florin_server.rails.evm.reading.node import (
    LATEST,
    BlockHeader,
    EvmNode,
    build_call,
    parse_address,
    parse_data,
    parse_hash,
    parse_header,
    parse_object,
    parse_objects,
    parse_quantity,
    parse_returned,
)
from florin_server.rails.evm.reading.receipt_transfers import is_shown_before, is_shown_together
from florin_server.rails.evm.setup.bytecode import is_former_settler, load_bytecode
from florin_server.rails.receipt_checks import (
    build_failed,
    build_passed,
    build_result,
    build_unknown,
    check_reference,
    compute_reference,
    require_single_chain,
)
from florin_server.rails.types import FORWARD_METHOD, RailUnavailable, SettlementEvent

_COIN_DECIMALS = 18
_Log = Mapping[str, Any]


class _PaidAsset(NamedTuple):
    """The paid asset according to the chain; the native coin is the zero address."""

    token: str
    decimals: int | None


class FinalitySpec(NamedTuple):
    """The rule for a final block.

    `confirmations`, its own included, and each condition that is set.

    Blocks of `after_s` seconds must follow it by their timestamps, and the node's `tag` must have
    reached it.
    """

    confirmations: int
    after_s: int = 0
    tag: str = "none"


async def examine_receipt(rpc: ChainRpc, receipt: Receipt, rule: FinalitySpec) -> list[CheckResult]:
    """Return the result of every check; raise RailUnavailable if the node does not answer."""
    place, node = receipt.transaction, EvmNode(rpc)
    try:
        require_single_chain(receipt)
        tx_hash, contract = parse_hash(place.hash), parse_address(receipt.option.contract)
        block_hash, token = parse_hash(place.block_hash), _get_token(receipt)
    except (RailUnavailable, ValueError):
        return [
            build_failed(
                ReceiptCheck.CONTENT, "the receipt does not name a settlement on an EVM chain"
            )
        ]
    served = f"eip155:{parse_quantity(await node.call('eth_chainId'))}"
    if served != place.chain:
        return [
            build_failed(
                ReceiptCheck.CHAIN,
                f"the node serves {served}, but the receipt is for {place.chain}",
            )
        ]
    receipt_answer, at, newest, code, decimals, *tagged = await node.batch(
        [
            ("eth_getTransactionReceipt", (tx_hash,)),
            ("eth_getBlockByNumber", (hex(place.block), False)),
            ("eth_getBlockByNumber", (LATEST, False)),
            ("eth_getCode", (contract, LATEST)),
            build_call(token, DECIMALS),
            *([] if rule.tag == "none" else [("eth_getBlockByNumber", (rule.tag, False))]),
        ]
    )
    head, block = parse_header(newest), parse_header(at)
    if head is None:
        raise RailUnavailable("the node has no newest block")
    results = [build_passed(ReceiptCheck.CHAIN, f"the node serves {served}")]
    chain_receipt = parse_object(receipt_answer)
    results += _check_transaction(chain_receipt, block, head.number, place.block, block_hash)
    if chain_receipt is None or block is None or results[-1].outcome is not CheckOutcome.PASSED:
        return results
    results.append(_check_finality(rule, block, head, tagged))
    runtime = parse_data(code)
    ours = _check_contract(receipt, contract, runtime)
    results.append(ours)
    if ours.outcome is CheckOutcome.FAILED:
        # regardless of its events
        return results
    logs = sorted(parse_objects(chain_receipt.get("logs")), key=_get_log_number)
    asset = _PaidAsset(
        token, _COIN_DECIMALS if token == ZERO_ADDRESS else _parse_decimals(decimals)
    )
    return results + _check_settlement(receipt, runtime, asset, logs)


def _check_transaction(
    receipt: _Log | None, block: BlockHeader | None, newest: int, number: int, block_hash: str
) -> list[CheckResult]:
    """Check that the transaction is on the chain, succeeded, and is in the stated block."""
    if receipt is None or receipt.get("blockHash") is None:
        if newest < number:
            return [build_unknown(ReceiptCheck.TRANSACTION, f"the node is only at block {newest}")]
        if block is not None and block.hash == block_hash:
            return [
                build_unknown(
                    ReceiptCheck.TRANSACTION,
                    "the node has its block, but no longer the transaction",
                )
            ]
        return [build_failed(ReceiptCheck.TRANSACTION, "it is not on this node's chain")]
    if parse_quantity(receipt.get("status")) != 1:
        return [build_failed(ReceiptCheck.TRANSACTION, "it failed on the chain and moved nothing")]
    there = build_passed(ReceiptCheck.TRANSACTION, "it is on this node's chain and succeeded")
    now = parse_hash(receipt.get("blockHash"))
    if now != block_hash:
        at = f"it is now in block {parse_quantity(receipt.get('blockNumber'))}, {now}"
        return [there, build_failed(ReceiptCheck.BLOCK, f"{at}: a newer receipt shows that")]
    if block is None or block.hash != block_hash:
        message = f"block {number} is another block on this node's chain"
        return [there, build_failed(ReceiptCheck.BLOCK, message)]
    return [
        there,
        build_passed(ReceiptCheck.BLOCK, f"block {number}, {block_hash}, Unix time {block.time}"),
    ]


def _check_finality(
    rule: FinalitySpec, block: BlockHeader, head: BlockHeader, tag_answer: Sequence[Any]
) -> CheckResult:
    """Return whether a block is final; `tag_answer` is the answer about the tag, if requested."""
    depth, passed_s = head.number - block.number + 1, head.time - block.time
    if depth < rule.confirmations:
        return build_unknown(
            ReceiptCheck.FINALITY, f"it has {depth} of {rule.confirmations} confirmations"
        )
    # timestamps are whole seconds
    if rule.after_s and passed_s <= rule.after_s:
        return build_unknown(
            ReceiptCheck.FINALITY, f"{passed_s} of {rule.after_s} seconds of blocks follow it"
        )
    for answer in tag_answer:
        named = None if isinstance(answer, RpcError) else parse_header(answer)
        if named is None:
            return build_unknown(ReceiptCheck.FINALITY, f"the node names no `{rule.tag}` block")
        if named.number < block.number:
            return build_unknown(
                ReceiptCheck.FINALITY, f"the node does not call it `{rule.tag}` yet"
            )
    enough = f"it has {depth} confirmations, and {rule.confirmations} are enough"
    if rule.after_s:
        enough += f"; {passed_s} seconds of blocks follow it, and {rule.after_s} are enough"
    return build_passed(ReceiptCheck.FINALITY, enough)


def _check_contract(receipt: Receipt, contract: str, code: bytes) -> CheckResult:
    if _has_address(receipt):
        ours = code == load_bytecode("PayForwarder").runtime
    else:
        ours = code == load_bytecode("PaySettler").runtime or is_former_settler(code)
    subject = f"the code at {contract} is"
    return build_result(
        ReceiptCheck.CONTRACT,
        ours,
        f"{subject} Florin's settlement contract",
        f"{subject} not the settlement contract that this Florin knows",
    )


def _parse_decimals(answer: Any) -> int | None:
    """Return the decimals that a token reports; None if it reports none."""
    returned = parse_returned(answer)
    return (
        None if returned is None or len(returned) != abi.WORD else int.from_bytes(returned, "big")
    )


def _check_settlement(
    receipt: Receipt, code: bytes, asset: _PaidAsset, logs: Sequence[_Log]
) -> list[CheckResult]:
    """Check that the settlement event and the token's events match the receipt."""
    position, settlement = receipt.transaction.position, None
    contract = parse_address(receipt.option.contract)
    for n, log in enumerate(logs):
        if settler.is_event(log, frozenset({contract}), settler.PAID_TOPIC):
            event = settler.parse_paid_event(log)
            # the signer of an old receipt did not know positions
            is_same_reference = event.ref == receipt.option.reference if position is None else None
            if is_same_reference or _get_log_number(log) == position:
                settlement = event, n
    if settlement is None:
        message = (
            f"log {position} of its block is not a settlement by {contract} in this transaction"
        )
        return [build_failed(ReceiptCheck.PAYMENT, message)]
    event, place = settlement
    ref = compute_reference(receipt)
    return [
        check_reference(receipt, event.ref, None if ref is None else "0x" + ref.hex()),
        build_result(
            ReceiptCheck.PAYER,
            event.payer == to_address(receipt.payer),
            receipt.payer,
            f"{event.payer} paid it",
        ),
        _check_receivers(receipt, event),
        _check_amount(receipt, event, asset),
        *_check_transfers(receipt, event, code, logs, place),
    ]


def _check_receivers(receipt: Receipt, event: SettlementEvent) -> CheckResult:
    fee_to = None if receipt.fee_to is None else to_address(receipt.fee_to)
    right = event.dest == to_address(receipt.recipient) and (
        not event.fee or event.fee_to == fee_to
    )
    return build_result(
        ReceiptCheck.RECIPIENT, right, receipt.recipient, f"{event.dest} received it"
    )


def _check_amount(receipt: Receipt, event: SettlementEvent, asset: _PaidAsset) -> CheckResult:
    event_amount = (event.token, str(event.value), str(event.fee))
    money = f"{event.value} minor units of {event.token}, of which {event.fee} are a fee"
    if event_amount != (asset.token, receipt.paid.value, receipt.paid.fee):
        return build_failed(ReceiptCheck.AMOUNT, f"it was {money}")
    right = asset.decimals in {None, receipt.paid.decimals}
    bad = f"{event.token} has {asset.decimals} decimals, not {receipt.paid.decimals}"
    return build_result(ReceiptCheck.AMOUNT, right, money, bad)


def _has_address(receipt: Receipt) -> bool:
    """Return True if the payment was forwarded from an address of its own."""
    return receipt.option.method == FORWARD_METHOD


def _check_transfers(
    receipt: Receipt, event: SettlementEvent, code: bytes, logs: Sequence[_Log], place: int
) -> list[CheckResult]:
    """Check the token's own events; return nothing if the native coin was paid."""
    if event.token == ZERO_ADDRESS:
        return []
    contract = parse_address(receipt.option.contract)
    if _has_address(receipt):
        right = is_shown_before(event, contract, logs[:place], giver=event.payer, taker="")
    elif is_former_settler(code):
        right = is_shown_before(event, contract, logs[:place], giver=contract, taker=contract)
    else:
        right = is_shown_together(event, contract, logs, place)
    return [
        build_result(
            ReceiptCheck.TRANSFER,
            right,
            "the token's own events agree",
            "the token's own events do not show that this amount moved",
        )
    ]


def _get_token(receipt: Receipt) -> str:
    asset = parse_asset(receipt.paid.asset)
    return ZERO_ADDRESS if asset.namespace == "slip44" else parse_address(asset.reference)


def _get_log_number(log: _Log) -> int:
    return parse_quantity(log.get("logIndex"))
