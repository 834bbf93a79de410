"""florin.toml: that of the home, or if it has none, that of the folder where a command is given."""

from __future__ import annotations

import re
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

DEFAULT_HOME: Final = Path(".florin")
_NAME: Final = "florin.toml"
# settings, also of chains and of the event sink, that contain paths of files
_PATHS: Final = (
    *("keystore_password_file", "gateway_token_file", "store_file", "store_standby_file"),
    *("tls_certificate", "tls_key", "grpc_client_ca"),
    *("relayer_keystores", "treasury_keystore"),
    *("password_file", "token_file", "credentials_file", "tls_ca", "folder"),
)
# messages of the TOML parser, and their plain form
_PLACE: Final = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")
_DUPLICATE: Final = re.compile(r"Cannot declare \((.+?),?\) twice")
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
        line, reason = _explain_toml_error(text, str(error))
        raise ValueError(f"{file}: line {line}: {reason}") from error


def _explain_toml_error(text: str, fault: str) -> tuple[int, str]:
    """Return the line that the parser complains about, and why in plain words."""
    place = _PLACE.search(fault)
    reason = _PLACE.sub("", fault)
    lines = text.rstrip().splitlines() or [""]
    number = int(place[1]) if place and place[1] else len(lines)
    if twice := _DUPLICATE.search(reason):
        name = ".".join(part.strip().strip("'") for part in twice[1].split(","))
        return number, f"the table {name} is written twice"
    if reason == "Cannot overwrite a value":
        # the value of the line ends there; a value of several lines has its key further up
        keys = [key for line in lines[:number] if (key := _KEY.match(line))]
        name = keys[-1][1] if keys else "a key"
        return number, f"{name} is written twice"
    return number, f"this is not valid TOML: {reason}"


def list_files(home: Path) -> tuple[Path, ...]:
    """Return the files that there are: the first one counts, and no other."""
    files: list[Path] = []
    for path in (home / _NAME, Path(_NAME)):
        # an unreadable folder is reported where it is needed
        with suppress(OSError):
            if path.is_file() and not any(path.samefile(other) for other in files):
                files.append(path)
    return tuple(files)


def resolve_home(named_home: Path | None) -> Path:
    """Return the home of a command, and no other setting of a file.

    `read_settings` has its errors.
    """
    return named_home or _find_home(Path(_NAME)) or DEFAULT_HOME


def read_settings(named_home: Path | None, default_home: Path) -> dict[str, Any]:
    """Return the settings of the file in use, with the home. SettingsError if it cannot be read.

    `named_home` is the home from elsewhere; without one the file of this folder can name it.
    """
    here = Path(_NAME)
    home = named_home or _find_home(here) or default_home
    counts = next(iter(list_files(home)), here)
    toml = _read_toml(counts)
    if counts != here:
        if (_find_home(counts) or home).resolve() != home.resolve():
            raise _settings_error(
                f"{counts}: it belongs to the state folder that contains it, but names another"
            )
        _resolve_paths(toml, counts.parent)
    toml.setdefault("home", home)
    return toml


def _resolve_paths(text: dict[str, Any], folder: Path) -> None:
    """Resolve the paths in a home's file against the home, wherever a command runs."""
    tables = [
        text,
        text.get("event_sink"),
        *(
            chain_table
            for kind in ("chains", "solana_chains")
            for chain_table in _to_list(text.get(kind))
        ),
    ]
    for table in (each_table for each_table in tables if isinstance(each_table, dict)):
        for name in _PATHS:
            value = table.get(name)
            if isinstance(value, str):
                table[name] = str(folder / value)
            elif isinstance(value, list):
                # a value that is not text is reported with all its faults
                table[name] = [
                    str(folder / entry) if isinstance(entry, str) else entry for entry in value
                ]


def _to_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _find_home(file: Path) -> Path | None:
    home = _read_toml(file).get("home")
    if not isinstance(home, str | None):
        raise _settings_error(f"{file}: home is not the path of a folder")
    return None if home is None else Path(home)


def _read_toml(file: Path) -> dict[str, Any]:
    """Return the content of a file; nothing if it does not exist."""
    try:
        return parse_toml(file.read_bytes(), file)
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise _settings_error(str(error)) from error
    except OSError as error:
        raise _settings_error(f"{file} cannot be read: {error.strerror}") from error


def _settings_error(why: str) -> Exception:
    """Return a SettingsError; finding the home alone does not need the library of settings."""
    from pydantic_settings import SettingsError  # noqa: PLC0415  (see above)

    return SettingsError(why)
