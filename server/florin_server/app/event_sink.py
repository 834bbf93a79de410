"""The event sink if the operator wants it, and what to say where the extra is missing."""

from __future__ import annotations

import ssl
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import SecretStr

from florin_server.app import webhooks
from florin_server.app.core import App
from florin_server.app.home import SetupError
from florin_server.base import logs
from florin_server.features.event_sink.service.broker import BrokerUnavailable
from florin_server.features.event_sink.worker import EventPublisher
from florin_server.money.outbox.store import outbox
from florin_server.settings import Settings
from florin_server.settings.event_sink import EventSinkSettings, split_hosts

if TYPE_CHECKING:
    from florin_server.features.event_sink.service.nats_broker import NatsOptions


def find_problem(settings: Settings) -> str:
    """Return why the settings of the event sink cannot work here; empty if they can, or are off."""
    if not settings.event_sink.url:
        return ""
    if find_spec("nats") is None:
        return "the event sink needs the extra: pip install 'florin-pay[nats]'"
    try:
        _build_options(settings.event_sink)
    except SetupError as error:
        return str(error)
    return ""


async def start_queue(app: App, *, runs_workers: bool) -> None:
    """Queue events for the sink from now on if it is on; SetupError if it cannot work.

    Only a process that publishes turns it off: other processes may lack its settings.
    """
    if problem := find_problem(app.settings):
        raise SetupError(problem)
    enabled = bool(app.settings.event_sink.url)
    if enabled or runs_workers:
        await app.store.write(outbox.set_sink_enabled(enabled=enabled))


def build_publisher(app: App, lease_owner: str) -> EventPublisher:
    """Return the worker that publishes to the sink of the settings."""
    from florin_server.features.event_sink.service.nats_broker import (  # noqa: PLC0415  (extra)
        NatsBroker,
    )

    connect = partial(NatsBroker.connect, _build_options(app.settings.event_sink))
    return EventPublisher(app, connect, webhooks.build_event_encoder(), lease_owner)


async def check_broker(settings: Settings) -> str:
    """Return why the broker cannot store events now; empty if it can. Nothing is created."""
    from florin_server.features.event_sink.service.nats_broker import (  # noqa: PLC0415  (extra)
        NatsBroker,
    )

    try:
        broker = await NatsBroker.connect(
            _build_options(settings.event_sink.model_copy(update={"create_stream": False}))
        )
    except BrokerUnavailable as error:
        return f"it cannot be reached: {error}"
    try:
        return await broker.find_problem()
    finally:
        await broker.close()


def _build_options(settings: EventSinkSettings) -> NatsOptions:
    """Return the access to the broker; SetupError if a file cannot be read."""
    from florin_server.features.event_sink.service.nats_broker import (  # noqa: PLC0415  (extra)
        NatsOptions,
    )

    return NatsOptions(
        hosts=split_hosts(settings.url),
        stream=settings.stream,
        subjects=f"{settings.subject}.>",
        creates_stream=settings.create_stream,
        timeout_s=settings.timeout_s,
        user=settings.user or None,
        password=_find_secret("password", settings.password, settings.password_file),
        token=_find_secret("token", settings.token, settings.token_file),
        credentials=_check_credentials(settings.credentials_file),
        tls=_build_tls(settings),
    )


def _find_secret(name: str, value: SecretStr | None, path: Path | None) -> str | None:
    """Return a secret of the settings or of their file; None without either."""
    if value is not None:
        secret = value.get_secret_value()
    elif path is not None:
        try:
            secret = path.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise SetupError(
                f"the {name} of the event sink cannot be read from {path}: {error}"
            ) from error
    else:
        return None
    if not secret:
        raise SetupError(f"the {name} of the event sink is empty")
    logs.redactor.hide([secret])
    return secret


def _check_credentials(path: Path | None) -> Path | None:
    """Return the file of a user's key; SetupError if it has none."""
    from florin_server.features.event_sink.service.nats_credentials import (  # noqa: PLC0415  (extra)
        read_seed,
    )

    if path is None:
        return None
    try:
        logs.redactor.hide([read_seed(path)])
    except (OSError, ValueError) as error:
        raise SetupError(
            f"the credentials of the event sink cannot be used from {path}: {error}"
        ) from error
    return path


def _build_tls(settings: EventSinkSettings) -> ssl.SSLContext | None:
    """Return the TLS of the connection; None for plain text."""
    is_tls = any(host.startswith("tls://") for host in split_hosts(settings.url))
    if not (is_tls or settings.tls_ca or settings.tls_certificate):
        return None
    try:
        context = ssl.create_default_context(cafile=settings.tls_ca)
        if settings.tls_certificate is not None:
            context.load_cert_chain(settings.tls_certificate, settings.tls_key)
    except OSError as error:
        raise SetupError(f"the TLS files of the event sink cannot be used: {error}") from error
    return context
