"""The transitions of Florin's transactions; the store allows no others."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from florin_server.domain.settlement.chain_txs import TxState
from florin_server.domain.transitions import TransitionTable


class TxEvent(StrEnum):
    """The events of a transaction."""

    SENT = "sent"
    FINAL = "final"
    REPLACED = "replaced"
    UNDONE = "undone"


STATE_DESCRIPTIONS: Mapping[TxState, str] = {
    TxState.SIGNED: "signed and stored; no node has accepted it yet",
    TxState.SENT: "a node has accepted it",
    TxState.FINAL: "in a final block; its cost is in the ledger, even if it failed",
    TxState.REPLACED: "no block can ever include it: another transaction provably used its "
    "nonce, or it lapsed",
}
EVENT_DESCRIPTIONS: Mapping[TxEvent, str] = {
    TxEvent.SENT: "a node accepted it, or accepted it again: the same bytes, or those with a "
    "higher fee",
    TxEvent.FINAL: "it is in a block that is deep enough",
    TxEvent.REPLACED: "no block can include it any more",
    TxEvent.UNDONE: "a reorganization removed its block; Florin sends the same bytes again",
}

_OPEN = (TxState.SIGNED, TxState.SENT)
TRANSACTION_TRANSITIONS: TransitionTable[TxState, TxEvent] = TransitionTable(
    {
        TxEvent.SENT: dict.fromkeys(_OPEN, TxState.SENT),
        TxEvent.FINAL: dict.fromkeys(_OPEN, TxState.FINAL),
        TxEvent.REPLACED: dict.fromkeys(_OPEN, TxState.REPLACED),
        TxEvent.UNDONE: {TxState.FINAL: TxState.SIGNED},
    }
)
