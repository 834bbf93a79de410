"""How a gateway reaches its service: TLS, or plain text where nobody else can listen."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from florin_gateway.forwarded import address_of

from florin_server.boot.home import Refused


@dataclass(frozen=True, slots=True)
class Link:
    """What an operator chose. `ca`, `certificate` and `key` are PEM files.

    `token` lets the service believe who calls the gateway. Plain text leaves this machine only if
    it is `insecure`.
    """

    tls: bool = False
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    server_name: str | None = None
    insecure: bool = False
    token: str = ""

    @property
    def encrypts(self) -> bool:
        """True if any option asks for TLS."""
        return self.tls or any((self.ca, self.certificate, self.key, self.server_name))

    def check(self, target: str) -> None:
        """Refused if this is no way to reach a target."""
        if self.encrypts and self.insecure:
            raise Refused("--insecure asks for plain text, the other options for TLS")
        if (self.certificate is None) is not (self.key is None):
            raise Refused("a client certificate needs its key: --certificate with --key")
        if self.encrypts:
            self._check_files()
        elif not (self.insecure or _is_here(target)):
            raise Refused(
                f"{target} is not on this machine, and plain text would show API keys on the way: "
                "--tls (or --ca FILE), or --insecure if the network between is your own"
            )

    def credentials(self) -> grpc.ChannelCredentials | None:
        """What encrypts the channel; None for plain text."""
        if not self.encrypts:
            return None
        return grpc.ssl_channel_credentials(
            _bytes(self.ca), _bytes(self.key), _bytes(self.certificate)
        )

    def options(self) -> list[tuple[str, Any]]:
        """Options of the channel."""
        if self.server_name is None:
            return []
        return [
            ("grpc.ssl_target_name_override", self.server_name),
            ("grpc.default_authority", self.server_name),
        ]

    def _check_files(self) -> None:
        """The C core complains about them only as connections fail."""
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.certificate is not None:
                context.load_cert_chain(self.certificate, self.key, password=_no_password)
        except (OSError, ValueError) as error:
            files = ", ".join(str(one) for one in (self.ca, self.certificate, self.key) if one)
            raise Refused(f"{files} cannot be used: {error}") from error


def _no_password() -> str:
    raise ValueError("the key is encrypted, and nobody is there to be asked for its password")


def _bytes(path: Path | None) -> bytes | None:
    return None if path is None else path.read_bytes()


def _is_here(target: str) -> bool:
    """True if every address that a target (as gRPC reads it) names is on this machine."""
    scheme, separator, rest = target.partition(":")
    if separator and scheme in {"unix", "unix-abstract"}:
        return True
    if separator and scheme in {"dns", "ipv4", "ipv6"}:
        target = rest.removeprefix("///")
    return all(_is_loopback(one) for one in target.split(","))


def _is_loopback(place: str) -> bool:
    if place.rpartition(":")[0] == "localhost":
        return True
    at = address_of(place)
    return at is not None and at.is_loopback
