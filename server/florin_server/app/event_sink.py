"""The event sink if the operator wants it, and what to say where the extra is missing."""

from __future__ import annotations

import logging
import ssl
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from pydantic import SecretStr

from florin_server.app import webhooks
from florin_server.app.core import App
from florin_server.app.home import SetupError
from florin_server.base import logs
from florin_server.db.context import StorageContext
from florin_server.features.event_sink.service.broker import BrokerUnavailable
from florin_server.features.event_sink.store import destination
from florin_server.features.event_sink.store.destination import SinkDestination
from florin_server.features.event_sink.worker import EventPublisher
from florin_server.operations.context import OperationsContext
from florin_server.settings import Settings
from florin_server.settings.context import SettingsContext
from florin_server.settings.event_sink import EventSinkSettings, list_addresses, split_hosts

if TYPE_CHECKING:
    from florin_server.features.event_sink.service.nats_broker import NatsOptions

_log = logging.getLogger(__name__)

# until a process notices that another one has changed the installation's sink
_WATCH_S: Final = 10.0


class _Context(OperationsContext, SettingsContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


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


async def start_queue(app: _Context, *, runs_workers: bool) -> None:
    """Queue events for the sink of the settings, if they are the installation's.

    Raise SetupError if the sink cannot work. Processes without workers may lack its settings.
    """
    if problem := find_problem(app.settings):
        raise SetupError(problem)
    if not concerns(app.settings, runs_workers=runs_workers):
        return
    own = build_destination(app.settings.event_sink)
    await app.store.write(destination.install(own, is_alone=app.store.is_exclusive))
    await _compare(app, own)


def concerns(settings: Settings, *, runs_workers: bool) -> bool:
    """Return True if the settings of a process count: it names a sink, or runs workers."""
    return runs_workers or bool(settings.event_sink.url)


async def watch_installed(app: _Context) -> None:
    """Work until canceled: compare this process's settings with the installation's."""
    own = build_destination(app.settings.event_sink)
    while True:
        await _compare(app, own)
        await app.clock.sleep(_WATCH_S)


async def _compare(app: _Context, own: SinkDestination) -> None:
    difference = own.describe_difference(await app.store.read(destination.find_installed()))
    health = app.event_sink_health
    if difference and difference != health.difference:
        _log.warning("this process publishes no events: %s", difference)
    elif health.difference and not difference:
        _log.info("the event sink of this process is the installation's again")
    health.difference = difference


def build_destination(settings: EventSinkSettings) -> SinkDestination:
    """Return where the settings of a process publish."""
    if not settings.url:
        return SinkDestination(settings.revision)
    hosts = tuple(list_addresses(settings.url))
    return SinkDestination(settings.revision, hosts, settings.stream, settings.subject)


def build_publisher(app: App, lease_owner: str) -> EventPublisher:
    """Return the worker that publishes to the sink of the settings."""
    from florin_server.features.event_sink.service.nats_broker import (  # noqa: PLC0415  (extra)
        NatsBroker,
    )

    settings = app.settings.event_sink
    connect = partial(NatsBroker.connect, _build_options(settings))
    own = build_destination(settings)
    return EventPublisher(app, connect, webhooks.build_event_encoder(), own, lease_owner)


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
