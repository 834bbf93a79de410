"""The table of payments' own addresses that are looked at for money that is left there."""

from __future__ import annotations

from sqlalchemy import Index

from florin_server.db.tables.fields import (
    WITHOUT_ROWID,
    TableRow,
    integer_column,
    text_column,
)


class AddressSweepRow(TableRow, table=True):
    """An address on a chain (CAIP-2), after the time in which every block was read for it.

    `route_chain_id` is the chain of its payment: money can come to the same address of another.
    What left it is recorded up to the block `read_to`, None before the first look. `tries` counts
    the transactions since that moved nothing. `requested_asset` is what the operator wants moved,
    whatever it is worth.
    """

    __tablename__ = "address_sweep"
    __table_args__ = (Index("ix_address_sweep_due", "chain_id", "due_at_us"), WITHOUT_ROWID)

    chain_id: str = text_column(key=True)
    address: str = text_column(key=True)
    route_chain_id: str = text_column()
    due_at_us: int = integer_column()
    read_to: int | None = integer_column()
    tries: int = integer_column()
    requested_asset: str | None = text_column()
