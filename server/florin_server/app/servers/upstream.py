"""The connection of a gateway to its service: TLS, or plain text where others cannot listen."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from grpc_rest_gateway.forwarded import find_address

from florin_server.app.home import SetupError


@dataclass(frozen=True, slots=True)
class UpstreamConnection:
    """The operator's options. `ca`, `certificate` and `key` are PEM files.

    With `token` the service trusts the gateway's caller addresses. Plain text leaves this machine
    only if it is `insecure`.
    """

    tls: bool = False
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    server_name: str | None = None
    insecure: bool = False
    token: str = ""

    @property
    def is_encrypted(self) -> bool:
        """Return True if any option requires TLS."""
        return self.tls or any((self.ca, self.certificate, self.key, self.server_name))

    def require_usable(self, target: str) -> None:
        """Refuse options that cannot reach a target."""
        if self.is_encrypted and self.insecure:
            raise SetupError(
                "--insecure means plain text, and the other options mean TLS: use one or the other"
            )
        if (self.certificate is None) is not (self.key is None):
            raise SetupError("a client certificate needs its key: --certificate with --key")
        if self.is_encrypted:
            self._check_files()
        elif not (self.insecure or _is_local_target(target)):
            raise SetupError(
                f"{target} is on another machine, and plain text would expose API keys: use --tls "
                "(or --ca FILE), or --insecure on your own network"
            )

    def build_credentials(self) -> grpc.ChannelCredentials | None:
        """Return what encrypts the channel; None for plain text."""
        if not self.is_encrypted:
            return None
        return grpc.ssl_channel_credentials(
            _read_bytes(self.ca), _read_bytes(self.key), _read_bytes(self.certificate)
        )

    def build_options(self) -> list[tuple[str, Any]]:
        """Return the options of the channel."""
        if self.server_name is None:
            return []
        return [
            ("grpc.ssl_target_name_override", self.server_name),
            ("grpc.default_authority", self.server_name),
        ]

    def _check_files(self) -> None:
        """Check the files; the C core reports faults only as failing connections."""
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.certificate is not None:
                context.load_cert_chain(self.certificate, self.key, password=_refuse_password)
        except (OSError, ValueError) as error:
            files = ", ".join(str(path) for path in (self.ca, self.certificate, self.key) if path)
            raise SetupError(f"{files} cannot be used: {error}") from error


def _refuse_password() -> str:
    raise ValueError("the key is encrypted, and Florin cannot ask for its password: decrypt it")


def _read_bytes(path: Path | None) -> bytes | None:
    return None if path is None else path.read_bytes()


def _is_local_target(target: str) -> bool:
    """Return True if every address that a target (as gRPC reads it) names is on this machine."""
    scheme, separator, rest = target.partition(":")
    if separator and scheme in {"unix", "unix-abstract"}:
        return True
    if separator and scheme in {"dns", "ipv4", "ipv6"}:
        target = rest.removeprefix("///")
    return all(_is_loopback(address) for address in target.split(","))


def _is_loopback(address: str) -> bool:
    if address.rpartition(":")[0] == "localhost":
        return True
    at = find_address(address)
    return at is not None and at.is_loopback
