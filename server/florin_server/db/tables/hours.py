"""Tables of hourly figures; conventions as in `tables`.

`hour` counts whole hours since the Unix epoch. Every process adds to the same rows.
"""

from sqlalchemy import Index

from florin_server.db.tables.fields import (
    WITHOUT_ROWID,
    TableRow,
    integer_column,
    text_column,
)


class NodeHourRow(TableRow, table=True):
    """Observations of a node in an hour, by all processes; columns as in `domain/node_hours`."""

    __tablename__ = "node_hour"
    __table_args__ = (WITHOUT_ROWID,)

    chain_id: str = text_column(key=True)
    node: str = text_column(key=True)
    hour: int = integer_column(key=True)
    checks: int = integer_column()
    healthy_checks: int = integer_column()
    probes: int = integer_column()
    lag_sum: int = integer_column()
    lag_max: int = integer_column()
    answers_0: int = integer_column()
    answers_1: int = integer_column()
    answers_2: int = integer_column()
    answers_3: int = integer_column()
    answers_4: int = integer_column()
    answers_5: int = integer_column()
    answers_6: int = integer_column()
    answers_7: int = integer_column()
    answers_8: int = integer_column()
    answers_9: int = integer_column()
    answers_10: int = integer_column()
    answers_11: int = integer_column()
    timeouts: int = integer_column()
    unreachable: int = integer_column()
    rate_limited: int = integer_column()
    refused: int = integer_column()
    stale: int = integer_column()
    wrong_chain: int = integer_column()


class WebhookHourRow(TableRow, table=True):
    """The delivery attempts of an endpoint in an hour, and how many of them it accepted."""

    __tablename__ = "webhook_hour"
    __table_args__ = (Index("ix_webhook_hour_hour", "hour"), WITHOUT_ROWID)

    endpoint_id: str = text_column(key=True)
    hour: int = integer_column(key=True)
    attempts: int = integer_column()
    successes: int = integer_column()
