"""`commands.md`: every command with its arguments, options and defaults."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer
from florin_server.cli.exits import EXIT_MEANINGS, ExitStatus
from florin_server.cli.help import get_type_name
from florin_server.cli.main import app
from typer.core import TyperArgument, TyperGroup, TyperOption

from tools.reference.markdown import format_code, render_page, render_table

_ABOUT = """\
`florin COMMAND --help` prints the same text. Options that are not set come from the environment,
from `florin.toml`, and then from the [defaults of the settings](settings.md). [The command
line](../command-line.md) shows a day with the commands."""
_STATUSES = """\
## Exit statuses

They are stable: numbers can be added, and none changes its meaning. With `--json` stderr shows the
number too, and the [error code](errors.md) if Florin refused the call."""

# options whose default is a setting show it in their help
_DEFAULT = re.compile(r"\s*\[default: (.*)\]\s*$")
_TYPE_WORDS = {"str": "text", "int": "number", "float": "number", "Path": "path", "bool": ""}


def render_commands() -> str:
    """Return the document."""
    root = typer.main.get_command(app)
    if not isinstance(root, TyperGroup):
        raise TypeError("the command line has no commands")
    statuses = render_table(
        ("Status", "Meaning"),
        [(str(int(exit_status)), EXIT_MEANINGS[exit_status]) for exit_status in ExitStatus],
    )
    return render_page("Commands", _ABOUT, _STATUSES, statuses, *_render_group(root, "florin"))


def _render_group(group: TyperGroup, path: str) -> Iterator[str]:
    for name, command in group.commands.items():
        full = f"{path} {name}"
        if isinstance(command, TyperGroup):
            yield f"## {full}\n\n{_format_paragraphs(command.help)}"
            yield from _render_group(command, full)
        else:
            level = "##" if path == "florin" else "###"
            usage = _format_usage(full, command)
            yield f"{level} {full}\n\n{_format_paragraphs(command.help)}\n\n{usage}"
            yield _render_parameters(command)


def _format_paragraphs(text: str | None) -> str:
    return "\n\n".join(" ".join(part.split()) for part in (text or "").split("\n\n"))


def _format_usage(full: str, command: Any) -> str:
    words = [full]
    for param in command.params:
        if isinstance(param, TyperArgument):
            word = _format_name(param) + ("..." if param.nargs != 1 else "")
            words.append(word if param.required else f"[{word}]")
        elif param.required:
            words.append(f"{param.opts[0]} {_format_kind(param).upper()}")
    if any(
        isinstance(each_param, TyperOption) and not each_param.required
        for each_param in command.params
    ):
        words.append("[OPTIONS]")
    return f"    {' '.join(words)}"


def _render_parameters(command: Any) -> str:
    rows = []
    for param in command.params:
        if getattr(param, "hidden", False):
            continue
        text, default = _split_default(param)
        if isinstance(param, TyperArgument):
            what = format_code(_format_name(param))
        else:
            what = ", ".join(format_code(name) for name in (*param.opts, *param.secondary_opts))
            what = f"{what} {_format_kind(param)}".rstrip()
            if param.multiple and "repeatable" not in text:
                text = f"{text.rstrip('.')}; repeatable"
        rows.append((what, "required" if param.required else default, text))
    return render_table(("Argument or option", "Default", "Meaning"), rows) if rows else ""


def _split_default(parameter: TyperArgument | TyperOption) -> tuple[str, str]:
    """Return the help text, and the default apart from it."""
    text = parameter.help or ""
    if not text:
        raise LookupError(f"{parameter.name} has no help")
    if match := _DEFAULT.search(text):
        return text[: match.start()], match[1]
    if parameter.default is True and not getattr(parameter, "secondary_opts", None):
        return text, "on"
    return text, "" if parameter.default in {None, False, ""} else format_code(
        str(parameter.default)
    )


def _format_name(argument: TyperArgument) -> str:
    return (argument.metavar or argument.name or "").upper()


def _format_kind(option: TyperOption) -> str:
    """Return the kind of an option's value in one word; empty for a switch."""
    if option.metavar:
        return option.metavar.lower() if option.metavar.isalpha() else option.metavar
    name = get_type_name(option)
    return _TYPE_WORDS.get(name, name.lower())
