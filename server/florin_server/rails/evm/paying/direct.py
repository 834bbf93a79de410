"""Payments that the payer's wallet sends by itself to the settlement contract.

The settlement event proves them as it proves all others. What a wallet says about its transaction
is only read to catch mistakes while the payment can still be paid in another way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from florin_server.chains.evm import abi
from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.payments.payment import Option, ResolvedBuild
from florin_server.rails.evm.paying.terms import Terms, bare
from florin_server.rails.evm.paying.verify import refused
from florin_server.rails.evm.reading.node import (
    LATEST,
    Node,
    address_text,
    call_to,
    data,
    quantity,
    record,
    uint,
)
from florin_server.rails.evm.settings import EvmChain
from florin_server.rails.evm.settler import IS_PAID


def issue(option: Option, head: int, now_us: int) -> ResolvedBuild:
    """What the wallet sends, told for the first time; it is good as long as its option."""
    return ResolvedBuild(
        payment_id=option.payment_id,
        option_id=option.id,
        n=0,
        actions=Terms.of(option).calls(bare(option.payer)),
        terms={},
        head=head,
        issued_at_us=now_us,
    )


def plausible(issued: Sequence[ResolvedBuild], outputs: Sequence[str]) -> bool | None:
    """None if the outputs may be the hashes of what was issued, else False."""
    return None if issued and len(outputs) == len(issued[0].actions) else False


async def check(
    node: Node,
    chain: EvmChain,
    option: Option,
    issued: Sequence[ResolvedBuild],
    outputs: Sequence[str],
) -> None:
    """Returns if the last output may be the payment's transaction.

    Else it raises as the Verifier protocol tells.

    One that the node does not know may be on its way.
    """
    terms, payer = Terms.of(option), bare(option.payer)
    if terms.route.settler != chain.settler:
        # the operator changed contracts; the buyer gets new options with the new one
        raise FlorinError(Code.QUOTE_EXPIRED)
    if len(outputs) != len(issued[0].actions):
        raise refused("unreadable_output", "One output for each action was expected")
    tx_hash = orjson.loads(outputs[-1])
    transaction, receipt, code = await node.batch(
        [
            ("eth_getTransactionByHash", (tx_hash,)),
            ("eth_getTransactionReceipt", (tx_hash,)),
            ("eth_getCode", (payer, LATEST)),
        ]
    )
    sent, mined = record(transaction), record(receipt)
    if sent is None:
        return
    (call,) = orjson.loads(issued[0].actions[-1].params_json)
    # an account with code may wrap its call into whatever its wallet sends
    coded = bool(data(code)) and address_text(sent.get("to") or payer) != terms.route.settler
    if not (coded or _carries(sent, call) or _is_call(sent, call)):
        problem = "The transaction is not the one that was asked for"
    elif mined is not None and quantity(mined.get("status")) == 0:
        problem = "The transaction failed"
    else:
        return
    # A wallet may name one transaction while another one paid, as when two bundlers send the same
    # operation. What the contract knows as paid is never refused.
    question = IS_PAID + abi.address(payer) + terms.nonce
    (paid,) = await node.batch([call_to(terms.route.settler, question)])
    if uint(paid) == 0:
        raise refused("transaction_mismatch", problem)


def _carries(sent: Mapping[str, Any], call: Mapping[str, str]) -> bool:
    """Return whether another account's transaction, or one that sets code, may make a call.

    An account that has no code yet gets it in the very transaction that pays: it is created by
    its first operation (ERC-4337), or delegates (EIP-7702).
    """
    if sent.get("to") is None or address_text(sent["to"]) == call["to"]:
        return False
    if sent.get("authorizationList"):
        return True
    carried = bytes.fromhex(call["data"][2:]) in data(sent.get("input"))
    return carried and address_text(sent.get("from")) != call["from"]


def _is_call(sent: Mapping[str, Any], call: Mapping[str, str]) -> bool:
    """Return whether a transaction makes a call.

    Wallets may append bytes to the data, such as the name of their app (ERC-8021): a contract
    does not read them, and the money moves all the same.
    """
    return (
        sent.get("to") is not None
        and address_text(sent.get("from")) == call["from"]
        and address_text(sent["to"]) == call["to"]
        and quantity(sent.get("value")) == int(call.get("value", "0x0"), 16)
        and data(sent.get("input")).startswith(bytes.fromhex(call["data"][2:]))
    )
