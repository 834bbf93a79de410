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

_OTHERS_MODE = stat.S_IRWXG | stat.S_IRWXO
# including copies, logs of the databases, and half-written files of a dead process
_STATE_FILES = (
    # URLs of nodes contain keys
    *("secrets.json*", "florin.toml*", "demo.env*", "running.json*"),
    *("florin.db*", "evm.db*", "solana.db*"),
    *("chains", "chains/*", "keys", "keys/*"),
)


class SetupError(Exception):
    """The service does not start; the text says what to change."""


def replace_private_file(path: Path, text: str, *, is_locked: bool = False) -> TextIO:
    """Replace a file in one step; only its owner can read it, at every moment."""
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    file = os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w")
    if is_locked:
        _try_lock(file)
    file.write(text)
    file.flush()
    os.fsync(file.fileno())
    temporary.replace(path)
    return file


def _try_lock(file: TextIO) -> bool:
    """Lock a file until it is closed, also by the end of the process; False if another has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class InstallationSecrets:
    """Secrets that must not leave the machine. Losing `pepper` makes every API key worthless.

    Data about buyers is encrypted with the last of `capture_keys`, and decrypted with any of them.
    """

    pepper: bytes = field(repr=False)
    operator_token: str = field(repr=False)
    relayer_key: bytes = field(repr=False)
    demo_destination_key: bytes = field(repr=False)
    capture_keys: tuple[bytes, ...] = field(repr=False)

    @property
    def gateway_token(self) -> str:
        """Return the token of a gateway that shares the state folder."""
        return _derive_gateway_token(self.pepper)

    @property
    def console_key(self) -> bytes:
        """Return the key that encrypts the sessions of both consoles.

        A new operator token ends them.
        """
        return _derive_key(self.pepper, b"florin console " + self.operator_token.encode())

    @property
    def limits_key(self) -> bytes:
        """Return the key that names callers where processes share limits."""
        return _derive_key(self.pepper, b"florin limits")

    @property
    def export_id(self) -> str:
        """Return the id of this installation in exports, which reveals nothing about it."""
        return _derive_key(self.pepper, b"florin export").hex()[:16]

    @property
    def treasury_key(self) -> bytes:
        """Return the treasury's key on the embedded chain; operators bring their own for others."""
        return _derive_key(self.relayer_key, b"florin treasury")

    @property
    def solana_relayer_seed(self) -> bytes:
        """Return the relayer's key on Solana chains; no key serves two kinds of signature."""
        return _derive_key(self.relayer_key)

    @property
    def solana_treasury_seed(self) -> bytes:
        """Return the seed of the treasury on the embedded Solana chain."""
        return _derive_key(self.treasury_key)

    @property
    def solana_destination_seed(self) -> bytes:
        """Return the demo merchant's key on the embedded Solana chain."""
        return _derive_key(self.demo_destination_key)


class StateFolder:
    """The state folder. Nothing is made or changed before it is opened."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def open(self) -> Self:
        """Create the folder unless it exists, and keep other users out of its content.

        A restored copy has the modes of the tool that made it. SetupError as `keep_private`.
        """
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if paths := self.keep_private():
            names = ", ".join(str(path) for path in paths)
            _log.warning(
                "other users could read files that only the owner should read; Florin corrected "
                "their permissions: %s",
                names,
            )
        return self

    def require_existing(self) -> Self:
        """Refuse a folder without the state of Florin."""
        if not any((self.path / name).exists() for name in ("secrets.json", "florin.db")):
            raise SetupError(
                f"no Florin state folder exists in {self.path}: run `florin up` to create it, or "
                "name another folder with --home or FLORIN_HOME"
            )
        return self

    def list_exposed(self) -> list[Path]:
        """Return what other users can read or reach: the folder, files in it, folders in it."""
        own = [self.path, *(path for what in _STATE_FILES for path in sorted(self.path.glob(what)))]
        return [path for path in own if _get_mode(path) & _OTHERS_MODE]

    def keep_private(self) -> list[Path]:
        """Remove other users' access, and return what it concerned; SetupError if it remains."""
        paths = self.list_exposed()
        for path in paths:
            # what cannot be changed is reported below, with what a change does not affect
            with suppress(OSError):
                path.chmod(_get_mode(path) & ~_OTHERS_MODE)
        if left := self.list_exposed():
            names = " ".join(str(each_path) for each_path in left)
            raise SetupError(f"other users can read {names}: as their owner, chmod go= {names}")
        return paths

    @property
    def database_path(self) -> Path:
        """Return the store's file."""
        return self.path / "florin.db"

    @property
    def evm_path(self) -> Path:
        """Return the embedded EVM chain's file."""
        return self.path / "evm.db"

    @property
    def solana_path(self) -> Path:
        """Return the embedded Solana chain's file."""
        return self.path / "solana.db"

    @property
    def demo_env_path(self) -> Path:
        """Return the demo credentials."""
        return self.path / "demo.env"

    @property
    def running_path(self) -> Path:
        """Return the address of the running service; the file of a dead one can be left over."""
        return self.path / "running.json"

    @contextmanager
    def announce(self, addresses: Mapping[str, str]) -> Iterator[None]:
        """Announce the address of the service while this process lives and stays inside."""
        text = json.dumps({"pid": os.getpid(), **addresses}) + "\n"
        with replace_private_file(self.running_path, text, is_locked=True) as file:
            try:
                yield
            finally:
                # another process of this folder may have announced its own since
                with suppress(FileNotFoundError):
                    if self.running_path.stat().st_ino == os.fstat(file.fileno()).st_ino:
                        self.running_path.unlink()

    def find_addresses(self) -> dict[str, Any] | None:
        """Return the addresses of the service; None if none runs."""
        try:
            with self.running_path.open() as file:
                if _try_lock(file):
                    return None
                addresses: dict[str, Any] = json.load(file)
                return addresses
        except FileNotFoundError:
            return None

    def get_or_create_secrets(self) -> InstallationSecrets:
        """Return the installation's secrets, made on first use, by one process."""
        path = self.path / "secrets.json"
        if not path.exists():
            with self._lock_folder():
                if not path.exists():
                    _write_secrets(path, _generate_secrets())
        installation_secrets = self.read_secrets()
        if installation_secrets.capture_keys:
            return installation_secrets
        # made by a release that did not ask for data yet
        stored = json.loads(path.read_text())
        _write_secrets(path, {**stored, "capture_keys": [_generate_capture_key()]})
        return self.read_secrets()

    def read_secrets(self) -> InstallationSecrets:
        """Return the installation's secrets; SetupError if they are missing or damaged.

        `capture_keys` are empty where an older Florin wrote the file.
        """
        path = self.path / "secrets.json"
        try:
            stored = json.loads(path.read_text())
            return InstallationSecrets(
                pepper=bytes.fromhex(stored["pepper"]),
                operator_token=stored["operator_token"],
                relayer_key=bytes.fromhex(stored["relayer_key"]),
                demo_destination_key=bytes.fromhex(stored["demo_destination_key"]),
                capture_keys=tuple(_parse_key(text) for text in stored.get("capture_keys", ())),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise SetupError(
                f"{path} is damaged, and keys depend on it: restore it from a backup"
            ) from error
        except FileNotFoundError as error:
            raise SetupError(
                f"{path} is missing, and keys depend on it: restore it from a backup"
            ) from error

    @contextmanager
    def _lock_folder(self) -> Iterator[None]:
        """Serialize processes that share one folder, with their store elsewhere."""
        folder = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)

    def write_demo_env(self, values: Mapping[str, str]) -> None:
        """Write the demo credentials in the form that shells and tools read."""
        replace_private_file(self.demo_env_path, _format_shell(values)).close()

    def read_demo_env(self) -> dict[str, str]:
        """Return the demo credentials; empty if there are none."""
        return _read_shell(self.demo_env_path)

    def prepare_demo_env(self, values: Mapping[str, str]) -> None:
        """Store credentials that do not work yet aside, and remove those that no longer work.

        Once they work, `publish_demo_env` puts them in place.
        """
        self.demo_env_path.unlink(missing_ok=True)
        replace_private_file(self._prepared_demo_env_path, _format_shell(values)).close()

    def read_prepared_demo_env(self) -> dict[str, str]:
        """Return the content written aside; empty if it does not exist."""
        return _read_shell(self._prepared_demo_env_path)

    def publish_demo_env(self) -> None:
        """Put the stored credentials in place."""
        self._prepared_demo_env_path.replace(self.demo_env_path)

    def drop_demo_env(self) -> None:
        """Remove the stored credentials."""
        self._prepared_demo_env_path.unlink(missing_ok=True)

    @property
    def _prepared_demo_env_path(self) -> Path:
        return self.path / "demo.env.next"


def find_gateway_token(home: Path) -> str | None:
    """Return the gateway token of a folder, which is not created.

    None if it contains no secrets.
    """
    path = home / "secrets.json"
    try:
        return _derive_gateway_token(bytes.fromhex(json.loads(path.read_text())["pepper"]))
    except OSError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise SetupError(f"{path} is damaged: restore it from a backup") from error


def _derive_gateway_token(pepper: bytes) -> str:
    return _derive_key(pepper, b"florin gateway").hex()


def _format_shell(values: Mapping[str, str]) -> str:
    return "".join(f"{key}={value}\n" for key, value in values.items())


def _read_shell(path: Path) -> dict[str, str]:
    if not path.exists():
        return {}
    lines = path.read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def _get_mode(path: Path) -> int:
    """Return the permissions; 0 for a file that disappeared meanwhile, as database files do."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return 0


def _derive_key(key: bytes, purpose: bytes = b"florin solana") -> bytes:
    return hmac.digest(key, purpose, "sha256")


def _write_secrets(path: Path, values: Mapping[str, Any]) -> None:
    replace_private_file(path, json.dumps(values, indent=1) + "\n").close()


def _generate_secrets() -> dict[str, Any]:
    return {
        "pepper": secrets.token_hex(32),
        "operator_token": secrets.token_urlsafe(32),
        "relayer_key": _generate_private_key(),
        "demo_destination_key": _generate_private_key(),
        "capture_keys": [_generate_capture_key()],
    }


def _generate_capture_key() -> str:
    return secrets.token_hex(_get_capture_key_size())


def _get_capture_key_size() -> int:
    # encryption is slow to load, and the address of a service is read without it
    from florin_server.domain.cipher import KEY_BYTES  # noqa: PLC0415

    return KEY_BYTES


def _parse_key(text: str) -> bytes:
    key = bytes.fromhex(text)
    if len(key) != _get_capture_key_size():
        raise ValueError("a key has the wrong length")
    return key


def _generate_private_key() -> str:
    """Return a secp256k1 key; the odds of one outside the group's order are negligible."""
    return secrets.token_hex(32)
