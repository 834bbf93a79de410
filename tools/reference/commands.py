"""`commands.md`: every command with its arguments, options and defaults, from the command line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer
from florin_server.cli.exits import MEANING, Exit
from florin_server.cli.help import type_name
from florin_server.cli.main import app
from typer.core import TyperArgument, TyperGroup, TyperOption

from tools.reference.markdown import code, page, table

_ABOUT = """\
`florin COMMAND --help` tells the same. Options that are not given come from the environment, from
`florin.toml`, and then from the [defaults of the settings](settings.md). [The command
line](../command-line.md) shows a day with them."""
_STATUSES = """\
## Exit statuses

They are kept: numbers may be added, and none gets another meaning. With `--json` stderr tells the
number too, with the [error code](errors.md) where a Florin refused."""

# where the code has no default of its own, since the settings have it, the help says it
_DEFAULT = re.compile(r"\s*\[default: (.*)\]\s*$")
_WORDS = {"str": "text", "int": "number", "float": "number", "Path": "path", "bool": ""}


def commands() -> str:
    """The document."""
    root = typer.main.get_command(app)
    if not isinstance(root, TyperGroup):
        raise TypeError("the command line has no commands")
    statuses = table(("Status", "Meaning"), [(str(int(one)), MEANING[one]) for one in Exit])
    return page("Commands", _ABOUT, _STATUSES, statuses, *_of_group(root, "florin"))


def _of_group(group: TyperGroup, path: str) -> Iterator[str]:
    for name, command in group.commands.items():
        full = f"{path} {name}"
        if isinstance(command, TyperGroup):
            yield f"## {full}\n\n{_paragraphs(command.help)}"
            yield from _of_group(command, full)
        else:
            level = "##" if path == "florin" else "###"
            yield f"{level} {full}\n\n{_paragraphs(command.help)}\n\n{_usage(full, command)}"
            yield _parameters(command)


def _paragraphs(text: str | None) -> str:
    return "\n\n".join(" ".join(part.split()) for part in (text or "").split("\n\n"))


def _usage(full: str, command: Any) -> str:
    words = [full]
    for one in command.params:
        if isinstance(one, TyperArgument):
            word = _name(one) + ("..." if one.nargs != 1 else "")
            words.append(word if one.required else f"[{word}]")
        elif one.required:
            words.append(f"{one.opts[0]} {_kind(one).upper()}")
    if any(isinstance(one, TyperOption) and not one.required for one in command.params):
        words.append("[OPTIONS]")
    return f"    {' '.join(words)}"


def _parameters(command: Any) -> str:
    rows = []
    for one in command.params:
        if getattr(one, "hidden", False):
            continue
        text, default = _told(one)
        if isinstance(one, TyperArgument):
            what = code(_name(one))
        else:
            what = ", ".join(code(name) for name in (*one.opts, *one.secondary_opts))
            what = f"{what} {_kind(one)}".rstrip()
            if one.multiple and "repeatable" not in text:
                text = f"{text.rstrip('.')}; repeatable"
        rows.append((what, "required" if one.required else default, text))
    return table(("Argument or option", "Default", "Meaning"), rows) if rows else ""


def _told(one: TyperArgument | TyperOption) -> tuple[str, str]:
    """What the help says, and the default apart from it."""
    text = one.help or ""
    if not text:
        raise LookupError(f"{one.name} has no help")
    if said := _DEFAULT.search(text):
        return text[: said.start()], said[1]
    if one.default is True and not getattr(one, "secondary_opts", None):
        return text, "on"
    return text, "" if one.default in {None, False, ""} else code(str(one.default))


def _name(one: TyperArgument) -> str:
    return (one.metavar or one.name or "").upper()


def _kind(one: TyperOption) -> str:
    """What has to follow an option, in a word; nothing after a switch."""
    if one.metavar:
        return one.metavar.lower() if one.metavar.isalpha() else one.metavar
    name = type_name(one)
    return _WORDS.get(name, name.lower())
