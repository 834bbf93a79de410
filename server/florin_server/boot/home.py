"""The folder that holds an installation's state: database, secrets, what runs now."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


def write_private(path: Path, text: str) -> None:
    """Replaces a file in one step; only its owner can read it, at every moment."""
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


@dataclass(frozen=True, slots=True)
class Secrets:
    """What must not leave the machine. Losing `pepper` makes every API key worthless."""

    pepper: bytes
    operator_token: str
    relayer_key: bytes
    demo_destination_key: bytes


class Home:
    """The state folder, made on first use with mode 700."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(mode=0o700, parents=True, exist_ok=True)

    @property
    def database(self) -> Path:
        """The store's file."""
        return self.path / "florin.db"

    @property
    def evm(self) -> Path:
        """The embedded EVM chain's file."""
        return self.path / "evm.db"

    @property
    def demo_env(self) -> Path:
        """The demo credentials."""
        return self.path / "demo.env"

    @property
    def running(self) -> Path:
        """Where the service that runs now listens; absent when none runs."""
        return self.path / "running.json"

    def secrets(self) -> Secrets:
        """The installation's secrets, made on first use."""
        path = self.path / "secrets.json"
        if not path.exists():
            made = {
                "pepper": secrets.token_hex(32),
                "operator_token": secrets.token_urlsafe(32),
                "relayer_key": _private_key(),
                "demo_destination_key": _private_key(),
            }
            write_private(path, json.dumps(made, indent=1) + "\n")
        stored = json.loads(path.read_text())
        return Secrets(
            pepper=bytes.fromhex(stored["pepper"]),
            operator_token=stored["operator_token"],
            relayer_key=bytes.fromhex(stored["relayer_key"]),
            demo_destination_key=bytes.fromhex(stored["demo_destination_key"]),
        )

    def write_demo_env(self, values: Mapping[str, str]) -> None:
        """Writes the demo credentials in the form that shells and tools read."""
        write_private(self.demo_env, "".join(f"{key}={value}\n" for key, value in values.items()))

    def read_demo_env(self) -> dict[str, str]:
        """The demo credentials; empty if there are none."""
        if not self.demo_env.exists():
            return {}
        lines = self.demo_env.read_text().splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)


def _private_key() -> str:
    """A secp256k1 key; the odds of one outside the group's order are below any other fault's."""
    return secrets.token_hex(32)
