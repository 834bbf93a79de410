"""Settings of the event sink: a NATS JetStream broker that receives the events of all payments."""

from __future__ import annotations

from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

_SCHEMES = ("nats", "tls")
# of NATS, if a URL has none
_PORT = 4222
# of a subject of NATS, without wildcards
_TOKEN = r"[A-Za-z0-9_-]+"  # noqa: S105  (a part of a subject)


class EventSinkSettings(BaseModel):
    """The broker that receives events; it needs the extra `nats`."""

    model_config = ConfigDict(frozen=True)

    url: str = Field(
        default="",
        description="address of a NATS broker with JetStream, `nats://host:4222`, or `tls://…` "
        "for TLS; several hosts of one cluster are separated by commas; empty: events are "
        "published nowhere",
    )
    stream: str = Field(
        default="florin_events",
        pattern=rf"^{_TOKEN}$",
        max_length=100,
        description="stream that must acknowledge every event",
    )
    create_stream: bool = Field(
        default=False,
        description="create the stream if it does not exist: with storage in files, one replica "
        "and no limits; Florin never changes an existing stream",
    )
    subject: str = Field(
        default="florin.events",
        pattern=rf"^{_TOKEN}(\.{_TOKEN})*$",
        max_length=100,
        description="first part of the subjects: `{subject}.{live or test}.{merchant id}.{event "
        "type}`",
    )
    revision: int = Field(
        default=1,
        ge=1,
        le=1_000_000_000,
        description="revision of `url`, `stream` and `subject`: raise it in all processes to "
        "change them, or to turn the event sink off; the settings with the highest revision are "
        "those of the installation (on SQLite there is one process, which needs none)",
    )
    user: str = Field(default="", description="user name at the broker")
    password: SecretStr | None = Field(default=None, description="password of `user`")
    password_file: Path | None = Field(
        default=None, description="file that contains the value of `password`"
    )
    token: SecretStr | None = Field(
        default=None, description="token for the broker, instead of a user name"
    )
    token_file: Path | None = Field(
        default=None, description="file that contains the value of `token`"
    )
    credentials_file: Path | None = Field(
        default=None,
        description="file with a user's JWT and seed (`.creds`), or with the seed of an nkey; it "
        "is read again for each connection",
    )
    tls_ca: Path | None = Field(
        default=None,
        description="PEM file with the authorities of the broker's certificate; unset: those of "
        "the system",
    )
    tls_certificate: Path | None = Field(
        default=None, description="PEM file with Florin's client certificate for the broker"
    )
    tls_key: Path | None = Field(
        default=None, description="PEM file with the key of the client certificate"
    )
    timeout_s: float = Field(
        default=5.0, ge=0.5, le=60, description="seconds for the acknowledgement of an event"
    )

    @field_validator("url")
    @classmethod
    def _check_url(cls, value: str) -> str:
        for host in split_hosts(value):
            parts = urlsplit(host)
            if parts.scheme not in _SCHEMES or not parts.hostname:
                raise ValueError("each host needs the form nats://host:port or tls://host:port")
            if parts.username is not None or "@" in parts.netloc:
                raise ValueError("a URL appears in logs: set `user` and `password_file` instead")
            if parts.path or parts.query or parts.fragment:
                raise ValueError("a host has no path: use nats://host:port or tls://host:port")
            if parts.port == 0:
                raise ValueError("a broker has no port 0")
        return value

    @model_validator(mode="after")
    def _check_credentials(self) -> Self:
        has_password = self.password is not None or self.password_file is not None
        has_token = self.token is not None or self.token_file is not None
        if bool(self.user) is not has_password:
            raise ValueError("set both `user` and `password` (or `password_file`), or neither")
        if [bool(self.user), has_token, self.credentials_file is not None].count(True) > 1:
            raise ValueError("set one of `user`, `token` and `credentials_file`")
        if (self.tls_certificate is None) is not (self.tls_key is None):
            raise ValueError("set both `tls_certificate` and `tls_key`, or neither")
        return self


def split_hosts(url: str) -> list[str]:
    """Return the URLs of the hosts; a host without a scheme has that of the first."""
    hosts = [host.strip() for host in url.split(",") if host.strip()]
    scheme = hosts[0].partition("://")[0] if hosts else ""
    return [host if "://" in host else f"{scheme}://{host}" for host in hosts]


def list_addresses(url: str) -> list[str]:
    """Return each host as `host:port`, sorted."""
    return sorted({_to_address(host) for host in split_hosts(url)})


def _to_address(host: str) -> str:
    parts = urlsplit(host)
    name = parts.hostname or ""
    return f"[{name}]:{parts.port or _PORT}" if ":" in name else f"{name}:{parts.port or _PORT}"
