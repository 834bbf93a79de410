"""florin.toml: that of the home, or if it has none, that of the folder where a command is given."""

from __future__ import annotations

import re
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

HOME: Final = Path(".florin")
_NAME: Final = "florin.toml"
# settings, also of chains, that name files
_PATHS: Final = (
    *("keystore_password_file", "gateway_token_file", "store_file"),
    *("tls_certificate", "tls_key", "grpc_client_ca"),
    *("relayer_keystores", "treasury_keystore"),
)
# what the parser of TOML says, and what an operator understands
_PLACE: Final = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")
_TWICE: Final = re.compile(r"Cannot declare \((.+?),?\) twice")
_KEY: Final = re.compile(r"\s*([^=]+?)\s*=")


def parse_toml(content: bytes, file: Path) -> dict[str, Any]:
    """Return the content of a TOML file. ValueError with file, line and reason if invalid."""
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{file}: line {line}: this is not UTF-8 text") from error
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line, reason = _fault_in(text, str(error))
        raise ValueError(f"{file}: line {line}: {reason}") from error


def _fault_in(text: str, fault: str) -> tuple[int, str]:
    """Return the line that the parser complains about, and why in plain words."""
    place = _PLACE.search(fault)
    reason = _PLACE.sub("", fault)
    lines = text.rstrip().splitlines() or [""]
    number = int(place[1]) if place and place[1] else len(lines)
    if twice := _TWICE.search(reason):
        name = ".".join(part.strip().strip("'") for part in twice[1].split(","))
        return number, f"the table {name} is written twice"
    if reason == "Cannot overwrite a value":
        # the value of the line ends there; one of several lines has its key further up
        keys = [key for line in lines[:number] if (key := _KEY.match(line))]
        name = keys[-1][1] if keys else "a key"
        return number, f"{name} is written twice"
    return number, f"this is not valid TOML: {reason}"


def found(home: Path) -> tuple[Path, ...]:
    """The files that there are: the first one counts, and no other."""
    files: list[Path] = []
    for one in (home / _NAME, Path(_NAME)):
        # a folder that cannot be looked into is told by whoever needs it
        with suppress(OSError):
            if one.is_file() and not any(one.samefile(other) for other in files):
                files.append(one)
    return tuple(files)


def home(named: Path | None) -> Path:
    """The home of a command, without anything else that a file says; `read` has its errors."""
    return named or _home_in(Path(_NAME)) or HOME


def read(named: Path | None, usual: Path) -> dict[str, Any]:
    """What the file that counts says, with the home. SettingsError if it cannot be read.

    `named` is the home that was named elsewhere; without one the file of this folder may name it.
    """
    here = Path(_NAME)
    home = named or _home_in(here) or usual
    counts = next(iter(found(home)), here)
    said = _said(counts)
    if counts != here:
        if (_home_in(counts) or home).resolve() != home.resolve():
            raise _refused(f"{counts}: it is for the home that it is in, and names another")
        _place(said, counts.parent)
    said.setdefault("home", home)
    return said


def _place(said: dict[str, Any], folder: Path) -> None:
    """Files that a home's file names are in the home, wherever a command is given."""
    tables = [said, *(one for kind in ("chains", "solana_chains") for one in _list(said.get(kind)))]
    for table in (one for one in tables if isinstance(one, dict)):
        for name in _PATHS:
            value = table.get(name)
            if isinstance(value, str):
                table[name] = str(folder / value)
            elif isinstance(value, list):
                # what is no text is told with all that is wrong
                table[name] = [str(folder / one) if isinstance(one, str) else one for one in value]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _home_in(file: Path) -> Path | None:
    home = _said(file).get("home")
    if not isinstance(home, str | None):
        raise _refused(f"{file}: home is not the path of a folder")
    return None if home is None else Path(home)


def _said(file: Path) -> dict[str, Any]:
    """What a file says; nothing if it is not there."""
    try:
        return parse_toml(file.read_bytes(), file)
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise _refused(str(error)) from error
    except OSError as error:
        raise _refused(f"{file} cannot be read: {error.strerror}") from error


def _refused(why: str) -> Exception:
    """A SettingsError; who only asks where the home is does without the library of settings."""
    from pydantic_settings import SettingsError  # noqa: PLC0415  (see above)

    return SettingsError(why)
