"""Payments that the payer's wallet sends to the settlement contract itself.

The settlement event proves them like all others. The transaction that a wallet reports is read only
to catch mistakes while the payment can still be paid in another way. Once it is in a block, its
events decide and not its outer call: wallets bundle calls (EIP-5792), accounts and bundlers wrap
them (ERC-4337, EIP-7702).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from florin_server.domain.chains.evm import abi
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.payments.payment import PaymentOption, ResolvedBuild
from florin_server.rails.evm import settler
from florin_server.rails.evm.paying.outputs import build_output_refusal
from florin_server.rails.evm.paying.terms import EvmOptionTerms, to_address
from florin_server.rails.evm.reading.node import (
    LATEST,
    EvmNode,
    build_call,
    parse_address,
    parse_data,
    parse_object,
    parse_objects,
    parse_quantity,
    parse_uint,
)
from florin_server.rails.evm.settings import EvmChainSettings
from florin_server.rails.evm.settler import IS_PAID


def resolve_build(option: PaymentOption, head: int, now_us: int) -> ResolvedBuild:
    """Return the calls that the wallet sends; they are valid as long as their option."""
    return ResolvedBuild(
        payment_id=option.payment_id,
        option_id=option.id,
        n=0,
        actions=EvmOptionTerms.from_option(option).build_calls(to_address(option.payer)),
        terms={},
        head=head,
        issued_at_us=now_us,
    )


def is_plausible(resolved_builds: Sequence[ResolvedBuild], outputs: Sequence[str]) -> bool | None:
    """Return None if the outputs can be the hashes of the issued calls, False otherwise."""
    return None if resolved_builds and len(outputs) == len(resolved_builds[0].actions) else False


async def check_outputs(
    node: EvmNode,
    chain: EvmChainSettings,
    option: PaymentOption,
    resolved_builds: Sequence[ResolvedBuild],
    outputs: Sequence[str],
) -> None:
    """Return if the last output can be the payment's transaction.

    Otherwise raise what the OutputVerifier protocol documents. A transaction that the node does not
    know may still arrive.
    """
    terms, payer = EvmOptionTerms.from_option(option), to_address(option.payer)
    if terms.route.settler != chain.settler:
        # the operator changed contracts; the buyer gets new options with the new contract
        raise ApiError(ErrorCode.QUOTE_EXPIRED)
    if len(outputs) != len(resolved_builds[0].actions):
        raise build_output_refusal("unreadable_output", "One output for each action was expected")
    tx_hash = orjson.loads(outputs[-1])
    transaction, receipt, code = await node.batch(
        [
            ("eth_getTransactionByHash", (tx_hash,)),
            ("eth_getTransactionReceipt", (tx_hash,)),
            ("eth_getCode", (payer, LATEST)),
        ]
    )
    sent, mined = parse_object(transaction), parse_object(receipt)
    if mined is not None and mined.get("blockHash") is not None:
        if _pays(mined, terms, payer):
            return
        is_failed = parse_quantity(mined.get("status")) == 0
        problem = "The transaction failed" if is_failed else "The transaction made no such payment"
    elif sent is None:
        return
    else:
        (call,) = orjson.loads(resolved_builds[0].actions[-1].params_json)
        to = parse_address(sent.get("to") or payer)
        # an account with code may wrap its call into any other call
        is_wrapped = bool(parse_data(code)) and to != terms.route.settler
        if is_wrapped or _may_make_call(sent, call) or _is_call(sent, call):
            return
        problem = "The transaction is not the one that was asked for"
    # A wallet may report one transaction while another paid, as when two bundlers send the same
    # operation. A payment that the contract records as paid is never refused.
    question = IS_PAID + abi.encode_address(payer) + terms.nonce
    (paid,) = await node.batch([build_call(terms.route.settler, question)])
    if parse_uint(paid) == 0:
        raise build_output_refusal("transaction_mismatch", problem)


def _pays(receipt: Mapping[str, Any], terms: EvmOptionTerms, payer: str) -> bool:
    """Return whether a transaction made the payment of these terms, whatever its outer call is."""
    settlers = frozenset({terms.route.settler})
    return any(
        terms.is_proven_by(payer, settler.parse_paid_event(log))
        for log in parse_objects(receipt.get("logs"))
        if settler.is_event(log, settlers, settler.PAID_TOPIC)
    )


def _may_make_call(sent: Mapping[str, Any], call: Mapping[str, str]) -> bool:
    """Return whether another account's transaction, or one that sets code, can make a call.

    An account without code may get its code in the transaction that pays: its first operation
    creates it (ERC-4337), or it delegates (EIP-7702).
    """
    if sent.get("to") is None or parse_address(sent["to"]) == call["to"]:
        return False
    if sent.get("authorizationList"):
        return True
    carried = bytes.fromhex(call["data"][2:]) in parse_data(sent.get("input"))
    return carried and parse_address(sent.get("from")) != call["from"]


def _is_call(sent: Mapping[str, Any], call: Mapping[str, str]) -> bool:
    """Return whether a transaction makes a call.

    Wallets may append bytes to the data, such as the name of their app (ERC-8021): a contract does
    not read them, and the money moves anyway.
    """
    return (
        sent.get("to") is not None
        and parse_address(sent.get("from")) == call["from"]
        and parse_address(sent["to"]) == call["to"]
        and parse_quantity(sent.get("value")) == int(call.get("value", "0x0"), 16)
        and parse_data(sent.get("input")).startswith(bytes.fromhex(call["data"][2:]))
    )
