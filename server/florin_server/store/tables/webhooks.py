"""Tables of webhooks; conventions as in `tables`.

What is to be told is not copied: a row says how far an endpoint has heard of a payment, whose
events are there already.
"""

from sqlalchemy import Index
from sqlmodel import Field

from florin_server.domain.webhooks.endpoint import EndpointState
from florin_server.store.engine.columns import Words
from florin_server.store.tables.fields import (
    BY_KEY,
    Base,
    bytes_,
    number,
    one_of,
    only,
    partial,
    text_,
)

WAITS = "next_at_us IS NOT NULL"


class WebhookEndpointRow(Base, table=True):
    """Who is told of changes."""

    __tablename__ = "webhook_endpoint"
    __table_args__ = (
        only("state", EndpointState),
        Index("uq_webhook_endpoint_owner_live_url", "owner", "live", "url", unique=True),
        Index("ix_webhook_endpoint_state_retry_at_us", "state", "retry_at_us"),
        BY_KEY,
    )

    id: str = text_(key=True)
    partner_id: str = text_()
    merchant_id: str | None = text_()
    live: bool
    url: str = text_()
    events: frozenset[str] = Field(sa_type=Words)
    description: str = text_()
    version: str = text_()
    state: EndpointState = one_of(EndpointState)
    paused_reason: str | None = text_()
    created_at_us: int = number()
    failures: int = number()
    failing_since_us: int | None = number()
    retry_at_us: int = number()
    delivered_at_us: int | None = number()
    attempts: int = number()
    owner: str = text_()


class WebhookSecretRow(Base, table=True):
    """What an endpoint's messages are signed with, sealed."""

    __tablename__ = "webhook_secret"
    __table_args__ = (BY_KEY,)

    endpoint_id: str = text_(key=True)
    n: int = number(key=True)
    key_id: str = text_()
    nonce: bytes = bytes_()
    ciphertext: bytes = bytes_()
    public_key: str = text_()
    expires_at_us: int | None = number()


class WebhookDeliveryRow(Base, table=True):
    """What an endpoint is still to be told of a payment; gone once it was told everything."""

    __tablename__ = "webhook_delivery"
    __table_args__ = (
        partial("ix_webhook_delivery_due", WAITS, "endpoint_id", "next_at_us"),
        Index("ix_webhook_delivery_since_us", "since_us"),
        BY_KEY,
    )

    endpoint_id: str = text_(key=True)
    payment_id: str = text_(key=True)
    told: int = number()
    newest: int = number()
    attempts: int = number()
    since_us: int = number()
    next_at_us: int | None = number()
    claimed: bool
    epoch: int = number()
    only_to: int = number(default="-1")
    only_types: frozenset[str] = Field(sa_type=Words, sa_column_kwargs={"server_default": ""})


class WebhookAttemptRow(Base, table=True):
    """One of an endpoint's last attempts; a slot is used again once all of them are."""

    __tablename__ = "webhook_attempt"
    __table_args__ = (BY_KEY,)

    endpoint_id: str = text_(key=True)
    slot: int = number(key=True)
    n: int = number()
    payment_id: str = text_()
    version: int = number()
    event_type: str = text_()
    at_us: int = number()
    took_ms: int = number()
    status: int | None = number()
    fault: str | None = text_()
    answer: str = text_()
