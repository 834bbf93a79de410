"""Keys, JWTs and credentials of NATS, as its tools write them."""

from __future__ import annotations

import base64
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nkeys

_UNLIMITED = -1
# of an account: connections and subjects, and streams
_LIMITS = (
    *("subs", "data", "payload", "imports", "exports", "conn", "leaf"),
    *("mem_storage", "disk_storage", "streams", "consumer"),
)


@dataclass(frozen=True)
class NatsKey:
    """A key, of an operator, an account or a user."""

    public: str
    seed: str

    @classmethod
    def create(cls, prefix: int) -> NatsKey:
        seed = nkeys.encode_seed(os.urandom(32), prefix)
        return cls(nkeys.from_seed(bytearray(seed)).public_key.decode(), seed.decode())

    def sign(self, subject: str, kind: str, **claims: Any) -> str:
        """Return a JWT about another key."""
        header = {"typ": "JWT", "alg": "ed25519-nkey"}
        body = {
            "jti": base64.b32encode(os.urandom(20)).decode(),
            "iat": int(time.time()),
            "iss": self.public,
            "sub": subject,
            "name": kind,
            "nats": {"type": kind, "version": 2, **claims},
        }
        text = f"{_encode(json.dumps(header).encode())}.{_encode(json.dumps(body).encode())}"
        signature = nkeys.from_seed(bytearray(self.seed.encode())).sign(text.encode())
        return f"{text}.{_encode(signature)}"


@dataclass(frozen=True)
class NatsAccount:
    """An account of an operator that a server trusts; `options` are the server's."""

    key: NatsKey
    options: str

    @classmethod
    def create(cls) -> NatsAccount:
        operator = NatsKey.create(nkeys.PREFIX_BYTE_OPERATOR)
        # JetStream needs an account of the system
        key, system = (NatsKey.create(nkeys.PREFIX_BYTE_ACCOUNT) for _ in range(2))
        limits = {**dict.fromkeys(_LIMITS, _UNLIMITED), "wildcards": True}
        no_streams = limits | {"mem_storage": 0, "disk_storage": 0, "streams": 0, "consumer": 0}
        account = operator.sign(key.public, "account", limits=limits)
        own = operator.sign(system.public, "account", limits=no_streams)
        options = (
            f"operator: {operator.sign(operator.public, 'operator')}\nresolver: MEMORY\n"
            f"system_account: {system.public}\n"
            f"resolver_preload: {{ {key.public}: {account}, {system.public}: {own} }}\n"
        )
        return cls(key, options)

    def write_credentials(self, path: Path, **claims: Any) -> None:
        """Write the file of a new user."""
        user = NatsKey.create(nkeys.PREFIX_BYTE_USER)
        limits = dict.fromkeys(("subs", "data", "payload"), _UNLIMITED)
        jwt = self.key.sign(user.public, "user", **limits, **claims)
        path.write_text(
            f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n"
            "************************* IMPORTANT *************************\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{user.seed}\n------END USER NKEY SEED------\n"
        )


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
