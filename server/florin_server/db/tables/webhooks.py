"""Tables of webhooks; conventions as in `tables`.

Events are not copied: a row says which events of a payment an endpoint has received, and the events
themselves are stored already.
"""

from sqlalchemy import Index
from sqlmodel import Field

from florin_server.db.engine.columns import WordSet
from florin_server.db.tables.fields import (
    WITHOUT_ROWID,
    TableRow,
    bytes_column,
    check_enum,
    enum_column,
    integer_column,
    partial_index,
    text_column,
)
from florin_server.domain.webhooks.endpoint import EndpointState

HAS_NEXT_ATTEMPT_PREDICATE = "next_at_us IS NOT NULL"


class WebhookEndpointRow(TableRow, table=True):
    """An endpoint that receives events."""

    __tablename__ = "webhook_endpoint"
    __table_args__ = (
        check_enum("state", EndpointState),
        Index("uq_webhook_endpoint_owner_live_url", "owner", "live", "url", unique=True),
        Index("ix_webhook_endpoint_partner", "partner_id", "live"),
        Index("ix_webhook_endpoint_state_retry_at_us", "state", "retry_at_us"),
        WITHOUT_ROWID,
    )

    id: str = text_column(key=True)
    partner_id: str = text_column()
    merchant_id: str | None = text_column()
    live: bool
    url: str = text_column()
    events: frozenset[str] = Field(sa_type=WordSet)
    description: str = text_column()
    version: str = text_column()
    state: EndpointState = enum_column(EndpointState)
    paused_reason: str | None = text_column()
    created_at_us: int = integer_column()
    failures: int = integer_column()
    failing_since_us: int | None = integer_column()
    retry_at_us: int = integer_column()
    delivered_at_us: int | None = integer_column()
    attempts: int = integer_column()
    owner: str = text_column()


class WebhookSecretRow(TableRow, table=True):
    """An encrypted key that signs an endpoint's messages."""

    __tablename__ = "webhook_secret"
    __table_args__ = (WITHOUT_ROWID,)

    endpoint_id: str = text_column(key=True)
    n: int = integer_column(key=True)
    key_id: str = text_column()
    nonce: bytes = bytes_column()
    ciphertext: bytes = bytes_column()
    public_key: str = text_column()
    expires_at_us: int | None = integer_column()


class WebhookDeliveryRow(TableRow, table=True):
    """The undelivered events of a payment for an endpoint; deleted once all are delivered."""

    __tablename__ = "webhook_delivery"
    __table_args__ = (
        partial_index(
            "ix_webhook_delivery_due", HAS_NEXT_ATTEMPT_PREDICATE, "endpoint_id", "next_at_us"
        ),
        Index("ix_webhook_delivery_since_us", "since_us"),
        WITHOUT_ROWID,
    )

    endpoint_id: str = text_column(key=True)
    payment_id: str = text_column(key=True)
    told: int = integer_column()
    newest: int = integer_column()
    attempts: int = integer_column()
    since_us: int = integer_column()
    next_at_us: int | None = integer_column()
    claimed: bool
    epoch: int = integer_column()
    only_to: int = integer_column(default="-1")
    only_types: frozenset[str] = Field(sa_type=WordSet, sa_column_kwargs={"server_default": ""})


class WebhookAttemptRow(TableRow, table=True):
    """One of an endpoint's last attempts; slots are reused in turn."""

    __tablename__ = "webhook_attempt"
    __table_args__ = (WITHOUT_ROWID,)

    endpoint_id: str = text_column(key=True)
    slot: int = integer_column(key=True)
    n: int = integer_column()
    payment_id: str = text_column()
    version: int = integer_column()
    event_type: str = text_column()
    at_us: int = integer_column()
    took_ms: int = integer_column()
    status: int | None = integer_column()
    fault: str | None = text_column()
    answer: str = text_column()
