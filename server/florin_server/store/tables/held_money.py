"""The table about money of blocked payers."""

from sqlalchemy import Index

from florin_server.domain.payouts.held_money import HeldState
from florin_server.store.tables.fields import Base, amount, number, one_of, only, partial, text_

# a query uses a partial index only if it repeats the very same words
OURS_TO_ANSWER_FOR = "state IN ('held', 'kept', 'undone')"


class HeldMoneyRow(Base, table=True):
    """What came from a payer who was blocked by then; each settlement event once."""

    __tablename__ = "held_money"
    __table_args__ = (
        only("state", HeldState),
        Index("uq_held_money_payment_id_event", "payment_id", "event", unique=True),
        Index("ix_held_money_chain_id_tx_hash", "chain_id", "tx_hash"),
        partial("ix_held_money_open", OURS_TO_ANSWER_FOR, "chain_id", "state"),
    )

    id: str = text_(key=True)
    payment_id: str = text_()
    chain_id: str = text_()
    asset: str = text_()
    payer: str = text_()
    value: int = amount()
    held: int = amount()
    fee: int = amount()
    settled_value: int | None = amount()
    tx_hash: str = text_()
    event: str = text_()
    late: bool
    why: str = text_()
    since_us: int = number()
    state: HeldState = one_of(HeldState)
    note: str | None = text_()
    decided_at_us: int | None = number()
    payout_id: str | None = text_()
    even_if_blocked: bool
