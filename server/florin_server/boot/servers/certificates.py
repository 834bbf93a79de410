"""The certificate that REST and gRPC show, read again when its files change.

A new one counts for connections that are made from then on; those that there are keep theirs. One
that cannot be used changes nothing: what was shown before still is, and the operator is told.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import grpc
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from florin_server.boot.home import Refused
from florin_server.config import Settings
from florin_server.domain.conditions import ConditionName

_log = logging.getLogger(__name__)

# between two looks at the files: renewals come weeks before they are needed
LOOK_S = 10.0
# those who renew by themselves have done it by then
WARN_DAYS = 14
_DAY_S = 86_400
_EVERYBODY = 0o007


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate with its key as PEM; `clients` are who vouches for gRPC's clients, if any."""

    chain: bytes
    key: bytes
    clients: bytes | None
    names: tuple[str, ...]
    since: datetime
    until: datetime
    context: ssl.SSLContext

    def grpc(self) -> Any:
        """The same as gRPC's core wants it."""
        return grpc.ssl_server_certificate_configuration([(self.key, self.chain)], self.clients)

    def problem(self, now: datetime) -> str:
        """Why nobody accepts it at a time; empty if they do."""
        names = ", ".join(self.names)
        if now >= self.until:
            return f"the certificate of {names} expired on {_day(self.until)}"
        if now < self.since:
            return f"the certificate of {names} is not valid before {_day(self.since)}"
        return ""

    def days(self, now: datetime) -> int:
        """The whole days that are left."""
        return int((self.until - now).total_seconds() // _DAY_S)


@dataclass(frozen=True, slots=True)
class Files:
    """Where the operator has them, in PEM."""

    certificate: Path
    key: Path
    clients: Path | None

    @classmethod
    def of(cls, settings: Settings) -> Self | None:
        """What the settings name; None for plain text. Refused if it is only a part."""
        certificate, key = settings.tls_certificate, settings.tls_key
        if (certificate is None) is not (key is None):
            raise Refused("a certificate needs its key: FLORIN_TLS_CERTIFICATE with FLORIN_TLS_KEY")
        if certificate is None or key is None:
            if settings.grpc_client_ca is not None:
                raise Refused("FLORIN_GRPC_CLIENT_CA needs FLORIN_TLS_CERTIFICATE and its key")
            return None
        if settings.proxy_header == "proxy-protocol":
            raise Refused(
                "proxy-protocol is read in front of plain text only: have the balancer end TLS, or "
                "take FLORIN_TLS_CERTIFICATE away"
            )
        return cls(certificate, key, settings.grpc_client_ca)

    def read(self) -> Pair:
        """All of it; Refused, with the file, if it cannot be used."""
        said = self._said()
        mode = self.key.stat().st_mode
        if mode & _EVERYBODY:
            raise Refused(f"others can read {self.key}: chmod o= {self.key}")
        chain, key, clients = said
        first = _certificate(self.certificate, chain)
        if _public(_key(self.key, key)) != _public(first):
            raise Refused(f"{self.key} is not the key of {self.certificate}")
        if clients is not None and self.clients is not None:
            _certificate(self.clients, clients)
        try:
            context = _context(self)
        except (OSError, ValueError) as error:
            raise Refused(f"{self.certificate} cannot be used: {error}") from error
        if self._said() != said:
            raise Refused(f"{self.certificate} changed while it was read")
        return Pair(
            *said,
            names=_names(first),
            since=first.not_valid_before_utc,
            until=first.not_valid_after_utc,
            context=context,
        )

    def stamp(self) -> tuple[Any, ...]:
        """Another one if a file was written, or replaced."""
        return tuple(_stamp(one) for one in (self.certificate, self.key, self.clients) if one)

    def _said(self) -> tuple[bytes, bytes, bytes | None]:
        clients = None if self.clients is None else _bytes(self.clients)
        return _bytes(self.certificate), _bytes(self.key), clients


class Certificates:
    """What is shown now. Refused if the files cannot be used when it is made."""

    def __init__(self, files: Files, now: Callable[[], datetime]) -> None:
        self._files, self._now = files, now
        self._stamp = files.stamp()
        self.pair = files.read()
        self._fault = ""
        self.context = _context(files)
        self.context.sni_callback = self._show
        if problem := self.pair.problem(now()):
            # payments that were accepted are settled all the same
            _log.error("%s: no client will connect", problem)

    @classmethod
    def of(cls, settings: Settings, now: Callable[[], datetime] | None = None) -> Self | None:
        """What the settings name; None for plain text. `now` is the time by which clients judge."""
        files = Files.of(settings)
        return None if files is None else cls(files, now or _now)

    def look(self) -> bool:
        """Reads the files if they changed, or were no good; True if another one is shown now."""
        stamp = self._files.stamp()
        if stamp == self._stamp and not self._fault:
            return False
        self._stamp = stamp
        try:
            found, fault = self._files.read(), ""
            if not self.pair.problem(self._now()):
                fault = found.problem(self._now())
        except (Refused, OSError) as error:
            found, fault = self.pair, str(error)
        if fault:
            if fault != self._fault:
                _log.error("the certificate from before is still shown: %s", fault)
            self._fault = fault
            return False
        self._fault = ""
        changed = (found.chain, found.key, found.clients) != (
            self.pair.chain,
            self.pair.key,
            self.pair.clients,
        )
        if changed:
            self.pair = found
            _log.info(
                "new connections get the certificate of %s until %s",
                ", ".join(found.names),
                _day(found.until),
            )
        return changed

    def grpc(self) -> grpc.ServerCredentials:
        """Credentials of a gRPC server; clients need certificates if somebody vouches for them."""
        shown = self.pair

        def fetch() -> Any:
            nonlocal shown
            # asked for each connection, by threads of the core
            if (now := self.pair) is shown:
                return None
            shown = now
            return now.grpc()

        return grpc.dynamic_ssl_server_credentials(
            shown.grpc(), fetch, require_client_authentication=shown.clients is not None
        )

    def conditions(self) -> Mapping[ConditionName, str]:
        """What is wrong with it, in sentences; empty ones where nothing is."""
        now = self._now()
        expired, left = self.pair.problem(now), self.pair.days(now)
        told = self._fault and f"the certificate from before is still shown: {self._fault}"
        if not told and not expired and left < WARN_DAYS:
            told = f"{left} days are left of the certificate of {', '.join(self.pair.names)}"
        return {
            ConditionName.CERTIFICATE_EXPIRED: expired,
            ConditionName.CERTIFICATE_EXPIRING: told,
        }

    def follow(self, stack: AsyncExitStack) -> None:
        """Looks at the files again and again, until the stack ends."""
        following = asyncio.create_task(self._follow())
        stack.callback(following.cancel)

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            self.look()

    def _show(self, connection: Any, _name: str | None, _context: Any) -> None:
        connection.context = self.pair.context


def _now() -> datetime:
    return datetime.now(UTC)


def _context(files: Files) -> ssl.SSLContext:
    """For HTTP/1.1, from TLS 1.2 on."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["http/1.1"])
    context.load_cert_chain(files.certificate, files.key, password=_no_password)
    return context


def _certificate(path: Path, text: bytes) -> x509.Certificate:
    try:
        found = x509.load_pem_x509_certificates(text)[0]
        # what a name or a key cannot be is found out only when it is asked for
        _names(found)
        _public(found)
    except (ValueError, x509.DuplicateExtension, UnsupportedAlgorithm) as error:
        raise Refused(f"{path} holds no certificate in PEM: {error}") from error
    return found


def _key(path: Path, text: bytes) -> Any:
    try:
        return serialization.load_pem_private_key(text, None)
    except TypeError as error:
        raise Refused(f"{path} is encrypted, and nobody is there to be asked") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise Refused(f"{path} holds no private key in PEM") from error


def _public(of: Any) -> bytes:
    told: bytes = of.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return told


def _names(certificate: x509.Certificate) -> tuple[str, ...]:
    """Who it is for, as clients compare it."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return (certificate.subject.rfc4514_string() or "nobody",)
    return tuple(str(one.value) for one in found)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}") from error


def _stamp(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size, found.st_mode


def _no_password() -> str:
    raise ValueError("the key is encrypted, and nobody is there to be asked for its password")


def _day(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"
