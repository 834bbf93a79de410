"""Where a transaction of ours can go from where it is; the store moves none in another way."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from florin_server.domain.settlement.chain_txs import TxState
from florin_server.domain.transitions import Transitions


class TxEvent(StrEnum):
    """What can happen to a transaction."""

    SENT = "sent"
    FINAL = "final"
    REPLACED = "replaced"
    UNDONE = "undone"


STATES: Mapping[TxState, str] = {
    TxState.SIGNED: "signed and written down, not known to be with a node",
    TxState.SENT: "a node has taken it",
    TxState.FINAL: "in a final block; what it cost is booked, also if it failed there",
    TxState.REPLACED: "no block can ever hold it: another transaction provably used its nonce, or "
    "it lapsed",
}
EVENTS: Mapping[TxEvent, str] = {
    TxEvent.SENT: "a node took it, or took it again; the same bytes, or those with a higher fee",
    TxEvent.FINAL: "it is in a block that is deep enough",
    TxEvent.REPLACED: "no block can hold it any more",
    TxEvent.UNDONE: "a reorganisation removed its block; the same bytes are sent again",
}

_OPEN = (TxState.SIGNED, TxState.SENT)
TRANSACTION: Transitions[TxState, TxEvent] = Transitions(
    {
        TxEvent.SENT: dict.fromkeys(_OPEN, TxState.SENT),
        TxEvent.FINAL: dict.fromkeys(_OPEN, TxState.FINAL),
        TxEvent.REPLACED: dict.fromkeys(_OPEN, TxState.REPLACED),
        TxEvent.UNDONE: {TxState.FINAL: TxState.SIGNED},
    }
)
