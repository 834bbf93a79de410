"""The folder that holds an installation's state: database, secrets, what runs now."""

from __future__ import annotations

import fcntl
import hmac
import json
import logging
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TextIO

_log = logging.getLogger(__name__)

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
# with copies, logs of the databases, and what a dead process left half-written
_OWN = (
    # addresses of nodes hold keys
    *("secrets.json*", "florin.toml*", "demo.env*", "running.json*"),
    *("florin.db*", "evm.db*", "solana.db*"),
    *("chains", "chains/*", "keys", "keys/*"),
)


class Refused(Exception):  # noqa: N818  (a decision, told to the operator as it is)
    """The service does not start; the text says what to change."""


def private(path: Path, text: str, *, locked: bool = False) -> TextIO:
    """Replaces a file in one step; only its owner can read it, at every moment."""
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    file = os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w")
    if locked:
        _lock(file)
    file.write(text)
    file.flush()
    os.fsync(file.fileno())
    temporary.replace(path)
    return file


def _lock(file: TextIO) -> bool:
    """Locks a file until it is closed, by whatever death; False if another process has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Secrets:
    """What must not leave the machine. Losing `pepper` makes every API key worthless.

    Data about buyers is encrypted with the last of `capture_keys`, and read with any of them.
    """

    pepper: bytes = field(repr=False)
    operator_token: str = field(repr=False)
    relayer_key: bytes = field(repr=False)
    demo_destination_key: bytes = field(repr=False)
    capture_keys: tuple[bytes, ...] = field(repr=False)

    @property
    def gateway_token(self) -> str:
        """By what a gateway that shares the state folder is believed."""
        return _gateway_token(self.pepper)

    @property
    def console_key(self) -> bytes:
        """By what the sessions of both consoles are sealed; a new operator's token ends them."""
        return _derived(self.pepper, b"florin console " + self.operator_token.encode())

    @property
    def limits_key(self) -> bytes:
        """By what callers are named where processes share limits."""
        return _derived(self.pepper, b"florin limits")

    @property
    def export_id(self) -> str:
        """By what exports know this installation, and which says nothing about it."""
        return _derived(self.pepper, b"florin export").hex()[:16]

    @property
    def treasury_key(self) -> bytes:
        """The treasury's key on the embedded chain; operators bring their own for others."""
        return _derived(self.relayer_key, b"florin treasury")

    @property
    def solana_relayer_seed(self) -> bytes:
        """The relayer's key on Solana chains; no key serves two kinds of signature."""
        return _derived(self.relayer_key)

    @property
    def solana_treasury_seed(self) -> bytes:
        """The same on the embedded Solana chain."""
        return _derived(self.treasury_key)

    @property
    def solana_destination_seed(self) -> bytes:
        """The demo merchant's key on the embedded Solana chain."""
        return _derived(self.demo_destination_key)


class Home:
    """The state folder. Nothing is made or changed before it is opened."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def open(self) -> Self:
        """Makes the folder unless it is there, and keeps others out of what is in it.

        A copy that was restored has whatever modes its tool gave it. Refused as `keep_private`.
        """
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if found := self.keep_private():
            names = ", ".join(str(one) for one in found)
            _log.warning("others could read what only its owner may, and cannot now: %s", names)
        return self

    def require(self) -> Self:
        """Refused if no Florin has its state here."""
        if not any((self.path / name).exists() for name in ("secrets.json", "florin.db")):
            raise Refused(
                f"there is no Florin in {self.path}: `florin up` makes one there, and --home or "
                "FLORIN_HOME names another folder"
            )
        return self

    def exposed(self) -> list[Path]:
        """What others can read, or reach, of the state: the folder, files in it, folders in it."""
        own = [self.path, *(one for what in _OWN for one in sorted(self.path.glob(what)))]
        return [one for one in own if _mode(one) & _OTHERS]

    def keep_private(self) -> list[Path]:
        """Takes from others what they could read, and tells what that was; Refused if it stays."""
        found = self.exposed()
        for one in found:
            # what cannot be changed is told below, with what changes nothing by being changed
            with suppress(OSError):
                one.chmod(_mode(one) & ~_OTHERS)
        if left := self.exposed():
            names = " ".join(str(one) for one in left)
            raise Refused(f"others can read {names}: as their owner, chmod go= {names}")
        return found

    @property
    def database(self) -> Path:
        """The store's file."""
        return self.path / "florin.db"

    @property
    def evm(self) -> Path:
        """The embedded EVM chain's file."""
        return self.path / "evm.db"

    @property
    def solana(self) -> Path:
        """The embedded Solana chain's file."""
        return self.path / "solana.db"

    @property
    def demo_env(self) -> Path:
        """The demo credentials."""
        return self.path / "demo.env"

    @property
    def running(self) -> Path:
        """Where the service that runs now listens; a dead one's file may be left over."""
        return self.path / "running.json"

    @contextmanager
    def announced(self, addresses: Mapping[str, str]) -> Iterator[None]:
        """Tells where the service listens, as long as this process lives and stays inside."""
        text = json.dumps({"pid": os.getpid(), **addresses}) + "\n"
        with private(self.running, text, locked=True) as file:
            try:
                yield
            finally:
                # another process of this folder may have told its own since
                with suppress(FileNotFoundError):
                    if self.running.stat().st_ino == os.fstat(file.fileno()).st_ino:
                        self.running.unlink()

    def addresses(self) -> dict[str, Any] | None:
        """Where the service listens; None if none runs."""
        try:
            with self.running.open() as file:
                if _lock(file):
                    return None
                found: dict[str, Any] = json.load(file)
                return found
        except FileNotFoundError:
            return None

    def secrets(self) -> Secrets:
        """The installation's secrets, made on first use, by one process."""
        path = self.path / "secrets.json"
        if not path.exists():
            with self._alone():
                if not path.exists():
                    _write(path, _new_secrets())
        found = self.read_secrets()
        if found.capture_keys:
            return found
        # made by a Florin that did not ask for data yet
        stored = json.loads(path.read_text())
        _write(path, {**stored, "capture_keys": [_capture_key()]})
        return self.read_secrets()

    def read_secrets(self) -> Secrets:
        """Return the installation's secrets; Refused if they are missing or damaged.

        `capture_keys` are empty where an older Florin wrote the file.
        """
        path = self.path / "secrets.json"
        try:
            stored = json.loads(path.read_text())
            return Secrets(
                pepper=bytes.fromhex(stored["pepper"]),
                operator_token=stored["operator_token"],
                relayer_key=bytes.fromhex(stored["relayer_key"]),
                demo_destination_key=bytes.fromhex(stored["demo_destination_key"]),
                capture_keys=tuple(_key_of(text) for text in stored.get("capture_keys", ())),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise Refused(f"{path} is damaged and keys depend on it; restore a copy") from error
        except FileNotFoundError as error:
            raise Refused(f"{path} is missing and keys depend on it; restore a copy") from error

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Processes that have one folder, and its store elsewhere, wait for each other."""
        folder = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)

    def write_demo_env(self, values: Mapping[str, str]) -> None:
        """Writes the demo credentials in the form that shells and tools read."""
        private(self.demo_env, _shell(values)).close()

    def read_demo_env(self) -> dict[str, str]:
        """The demo credentials; empty if there are none."""
        return _read_shell(self.demo_env)

    def prepare_demo_env(self, values: Mapping[str, str]) -> None:
        """Keeps credentials that do not work yet aside, and takes away what does not work any more.

        Once they work, `publish_demo_env` puts them in place.
        """
        self.demo_env.unlink(missing_ok=True)
        private(self._next_demo_env, _shell(values)).close()

    def prepared_demo_env(self) -> dict[str, str]:
        """What is kept aside; empty if nothing is."""
        return _read_shell(self._next_demo_env)

    def publish_demo_env(self) -> None:
        """Puts what was kept aside in place."""
        self._next_demo_env.replace(self.demo_env)

    def drop_demo_env(self) -> None:
        """Takes away what was kept aside."""
        self._next_demo_env.unlink(missing_ok=True)

    @property
    def _next_demo_env(self) -> Path:
        return self.path / "demo.env.next"


def gateway_token(home: Path) -> str | None:
    """The same of a folder, which is not made if there is none; None if it holds no secrets."""
    path = home / "secrets.json"
    try:
        return _gateway_token(bytes.fromhex(json.loads(path.read_text())["pepper"]))
    except OSError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise Refused(f"{path} is damaged; restore a copy") from error


def _gateway_token(pepper: bytes) -> str:
    return _derived(pepper, b"florin gateway").hex()


def _shell(values: Mapping[str, str]) -> str:
    return "".join(f"{key}={value}\n" for key, value in values.items())


def _read_shell(path: Path) -> dict[str, str]:
    if not path.exists():
        return {}
    lines = path.read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def _mode(path: Path) -> int:
    """Who may do what; 0 for what has gone meanwhile, as files of a running database do."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return 0


def _derived(key: bytes, purpose: bytes = b"florin solana") -> bytes:
    return hmac.digest(key, purpose, "sha256")


def _write(path: Path, made: Mapping[str, Any]) -> None:
    private(path, json.dumps(made, indent=1) + "\n").close()


def _new_secrets() -> dict[str, Any]:
    return {
        "pepper": secrets.token_hex(32),
        "operator_token": secrets.token_urlsafe(32),
        "relayer_key": _private_key(),
        "demo_destination_key": _private_key(),
        "capture_keys": [_capture_key()],
    }


def _capture_key() -> str:
    return secrets.token_hex(_capture_key_bytes())


def _capture_key_bytes() -> int:
    # what seals is slow to load, and where a service listens is asked without it
    from florin_server.domain.sealed import KEY_BYTES  # noqa: PLC0415

    return KEY_BYTES


def _key_of(text: str) -> bytes:
    key = bytes.fromhex(text)
    if len(key) != _capture_key_bytes():
        raise ValueError("a key has another length")
    return key


def _private_key() -> str:
    """A secp256k1 key; the odds of one outside the group's order are below any other fault's."""
    return secrets.token_hex(32)
