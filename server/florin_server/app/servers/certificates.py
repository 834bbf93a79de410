"""The certificate of REST and gRPC, read again when its files change.

New connections use a new certificate; existing ones keep theirs. An unusable certificate changes
nothing: the former one stays in use, and the operator is alerted.
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

from florin_server.app.home import SetupError
from florin_server.domain.conditions import ConditionName
from florin_server.settings import Settings

_log = logging.getLogger(__name__)

# between two checks of the files: renewals come weeks before they are needed
POLL_S = 10.0
# automatic renewals are done by then
WARN_DAYS = 14
_DAY_S = 86_400
_OTHERS_MODE = 0o007


@dataclass(frozen=True, slots=True)
class CertificatePair:
    """A certificate with its key as PEM.

    `client_ca` are the authorities of gRPC's clients, if any.
    """

    chain: bytes
    key: bytes
    client_ca: bytes | None
    names: tuple[str, ...]
    valid_from: datetime
    valid_until: datetime
    context: ssl.SSLContext

    def to_grpc(self) -> Any:
        """Return it in the form of gRPC's core."""
        return grpc.ssl_server_certificate_configuration([(self.key, self.chain)], self.client_ca)

    def find_problem(self, now: datetime) -> str:
        """Return why clients do not accept it at a time; empty if they do."""
        names = ", ".join(self.names)
        if now >= self.valid_until:
            return f"the certificate of {names} expired on {_format_day(self.valid_until)}"
        if now < self.valid_from:
            return f"the certificate of {names} is not valid before {_format_day(self.valid_from)}"
        return ""

    def count_days_left(self, now: datetime) -> int:
        """Return the whole days that are left."""
        return int((self.valid_until - now).total_seconds() // _DAY_S)


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """The operator's files, in PEM."""

    certificate: Path
    key: Path
    client_ca: Path | None

    @classmethod
    def from_settings(cls, settings: Settings) -> Self | None:
        """Return the files of the settings; None for plain text. SetupError if incomplete."""
        certificate, key = settings.tls_certificate, settings.tls_key
        if (certificate is None) is not (key is None):
            raise SetupError(
                "a certificate needs its key: FLORIN_TLS_CERTIFICATE with FLORIN_TLS_KEY"
            )
        if certificate is None or key is None:
            if settings.grpc_client_ca is not None:
                raise SetupError("FLORIN_GRPC_CLIENT_CA needs FLORIN_TLS_CERTIFICATE and its key")
            return None
        if settings.proxy_header == "proxy-protocol":
            raise SetupError(
                "proxy-protocol works with plain text only: let the load balancer terminate TLS, "
                "or unset FLORIN_TLS_CERTIFICATE"
            )
        return cls(certificate, key, settings.grpc_client_ca)

    def read(self) -> CertificatePair:
        """Return all of it; SetupError, with the file, if it cannot be used."""
        pems = self._read_pem()
        mode = self.key.stat().st_mode
        if mode & _OTHERS_MODE:
            raise SetupError(f"other users can read {self.key}: chmod o= {self.key}")
        chain, key, clients = pems
        first = _parse_certificate(self.certificate, chain)
        if _encode_public_key(_parse_key(self.key, key)) != _encode_public_key(first):
            raise SetupError(f"{self.key} is not the key of {self.certificate}")
        if clients is not None and self.client_ca is not None:
            _parse_certificate(self.client_ca, clients)
        try:
            context = _build_context(self)
        except (OSError, ValueError) as error:
            raise SetupError(f"{self.certificate} cannot be used: {error}") from error
        if self._read_pem() != pems:
            raise SetupError(f"{self.certificate} changed while it was read")
        return CertificatePair(
            *pems,
            names=_list_names(first),
            valid_from=first.not_valid_before_utc,
            valid_until=first.not_valid_after_utc,
            context=context,
        )

    def read_stamp(self) -> tuple[Any, ...]:
        """Return a stamp that changes when a file is written or replaced."""
        return tuple(
            _read_stamp(path) for path in (self.certificate, self.key, self.client_ca) if path
        )

    def _read_pem(self) -> tuple[bytes, bytes, bytes | None]:
        clients = None if self.client_ca is None else _read_bytes(self.client_ca)
        return _read_bytes(self.certificate), _read_bytes(self.key), clients


class CertificateStore:
    """The certificate in use. SetupError if the files are not usable at its creation."""

    def __init__(self, files: CertificateFiles, now: Callable[[], datetime]) -> None:
        self._files, self._now = files, now
        self._stamp = files.read_stamp()
        self.pair = files.read()
        self._fault = ""
        self.context = _build_context(files)
        self.context.sni_callback = self._select_context
        if problem := self.pair.find_problem(now()):
            # accepted payments are settled all the same
            _log.error("%s: no client can connect", problem)

    @classmethod
    def from_settings(
        cls, settings: Settings, now: Callable[[], datetime] | None = None
    ) -> Self | None:
        """Return the store of the settings; None for plain text. `now` is the time of clients."""
        files = CertificateFiles.from_settings(settings)
        return None if files is None else cls(files, now or _get_now)

    def reload_if_changed(self) -> bool:
        """Read the files if they changed, or were unusable.

        Return True if the certificate changed.
        """
        stamp = self._files.read_stamp()
        if stamp == self._stamp and not self._fault:
            return False
        self._stamp = stamp
        try:
            pair, fault = self._files.read(), ""
            if not self.pair.find_problem(self._now()):
                fault = pair.find_problem(self._now())
        except (SetupError, OSError) as error:
            pair, fault = self.pair, str(error)
        if fault:
            if fault != self._fault:
                _log.error("Florin still uses the former certificate: %s", fault)
            self._fault = fault
            return False
        self._fault = ""
        changed = (pair.chain, pair.key, pair.client_ca) != (
            self.pair.chain,
            self.pair.key,
            self.pair.client_ca,
        )
        if changed:
            self.pair = pair
            _log.info(
                "new connections use the certificate of %s, valid until %s",
                ", ".join(pair.names),
                _format_day(pair.valid_until),
            )
        return changed

    def build_grpc_credentials(self) -> grpc.ServerCredentials:
        """Return credentials of a gRPC server; clients need certificates if authorities are set."""
        shown = self.pair

        def fetch() -> Any:
            nonlocal shown
            # called for each connection, by threads of the core
            if (now := self.pair) is shown:
                return None
            shown = now
            return now.to_grpc()

        return grpc.dynamic_ssl_server_credentials(
            shown.to_grpc(), fetch, require_client_authentication=shown.client_ca is not None
        )

    def list_conditions(self) -> Mapping[ConditionName, str]:
        """Return its conditions, in sentences; empty ones without a fault."""
        now = self._now()
        expired, left = self.pair.find_problem(now), self.pair.count_days_left(now)
        fault = self._fault and f"Florin still uses the former certificate: {self._fault}"
        if not fault and not expired and left < WARN_DAYS:
            fault = (
                f"{left} days are left until the certificate expires: {', '.join(self.pair.names)}"
            )
        return {
            ConditionName.CERTIFICATE_EXPIRED: expired,
            ConditionName.CERTIFICATE_EXPIRING: fault,
        }

    def start_following(self, stack: AsyncExitStack) -> None:
        """Check the files again and again, until the stack ends."""
        following = asyncio.create_task(self._follow())
        stack.callback(following.cancel)

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(POLL_S)
            self.reload_if_changed()

    def _select_context(self, connection: Any, _name: str | None, _context: Any) -> None:
        connection.context = self.pair.context


def _get_now() -> datetime:
    return datetime.now(UTC)


def _build_context(files: CertificateFiles) -> ssl.SSLContext:
    """Return a context for HTTP/1.1, from TLS 1.2 on."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["http/1.1"])
    context.load_cert_chain(files.certificate, files.key, password=_refuse_password)
    return context


def _parse_certificate(path: Path, text: bytes) -> x509.Certificate:
    try:
        certificate = x509.load_pem_x509_certificates(text)[0]
        # an invalid name or key is found only when it is used
        _list_names(certificate)
        _encode_public_key(certificate)
    except (ValueError, x509.DuplicateExtension, UnsupportedAlgorithm) as error:
        raise SetupError(f"{path} contains no certificate in PEM: {error}") from error
    return certificate


def _parse_key(path: Path, text: bytes) -> Any:
    try:
        return serialization.load_pem_private_key(text, None)
    except TypeError as error:
        raise SetupError(
            f"{path} is encrypted, and Florin cannot ask for its password: decrypt it"
        ) from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise SetupError(f"{path} contains no private key in PEM") from error


def _encode_public_key(key_owner: Any) -> bytes:
    encoded: bytes = key_owner.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return encoded


def _list_names(certificate: x509.Certificate) -> tuple[str, ...]:
    """Return its names, as clients compare them."""
    try:
        subject_alternative_name = certificate.extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        ).value
    except x509.ExtensionNotFound:
        return (certificate.subject.rfc4514_string() or "no name",)
    return tuple(str(general_name.value) for general_name in subject_alternative_name)


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SetupError(f"{path} cannot be read: {error.strerror}") from error


def _read_stamp(path: Path) -> tuple[int, ...] | None:
    try:
        stat_result = path.stat()
    except OSError:
        return None
    return stat_result.st_ino, stat_result.st_mtime_ns, stat_result.st_size, stat_result.st_mode


def _refuse_password() -> str:
    raise ValueError("the key is encrypted, and Florin cannot ask for its password: decrypt it")


def _format_day(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"
