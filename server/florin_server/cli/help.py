"""Format `--help`: full summaries, grouped commands, and readable placeholders."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from typing import Any, Final, Union, get_args, get_origin

from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

# shown in this order; commands that are not listed here follow in a section of their own
SECTIONS: Final[Mapping[str, Sequence[str]]] = {
    "Run Florin": ("up", "demo", "lab", "simulate", "serve", "worker", "gateway"),
    "Payments": ("payments", "pay", "addresses", "verify-receipt", "trigger"),
    "Merchants": ("partners", "merchants", "webhooks", "listen", "customers"),
    "Keys": ("keys", "wallets", "receipt-keys", "versions"),
    "Chains": ("chain", "executors", "leases", "faults"),
    "Money": ("ledger", "payouts", "sanctions", "report", "export"),
    "Operations": ("doctor", "audit", "quarantine", "store", "archive", "migrate", "completion"),
}
_OTHER_SECTION: Final = "Commands"
_PLACEHOLDERS: Final = {
    "str": "TEXT",
    "int": "NUMBER",
    "float": "NUMBER",
    "Path": "PATH",
}
# where a time is accepted, a date alone means midnight UTC
_DATE, _TIME = "YYYY-MM-DD", "YYYY-MM-DD[THH:MM:SSZ]"


class ReadableCommand(TyperCommand):
    """A command whose help shows words instead of Python type names."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        _name_placeholders(self.params)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the usage pieces after the command's name, without braces."""
        pieces = super().collect_usage_pieces(ctx)
        return [piece.replace("{", "").replace("}", "") for piece in pieces]


class ReadableGroup(TyperGroup):
    """A group whose help shows full summaries, in sections."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """Write the names and summaries of the commands; the root group has sections."""
        shown = {name: command for name, command in self.commands.items() if not command.hidden}
        sections = {
            title: [name for name in names if name in shown]
            for title, names in (SECTIONS if self.name == "florin" else {}).items()
        }
        listed_names = {name for names in sections.values() for name in names}
        sections[_OTHER_SECTION] = [name for name in shown if name not in listed_names]
        for title, names in sections.items():
            rows = [(name, _get_summary(shown[name].help)) for name in names]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def _get_summary(text: str | None) -> str:
    """Return the whole first paragraph: a cut at the first full stop would break at `e.g.`."""
    return " ".join((text or "").split("\n\n")[0].split())


def _name_placeholders(params: Sequence[Any]) -> None:
    for param in params:
        if isinstance(param, TyperArgument):
            param.metavar = param.metavar or param.name.upper()
            param.display_type_rich = _hide_type  # type: ignore[method-assign]
        elif isinstance(param, TyperOption) and not param.is_flag:
            param.metavar = param.metavar or _get_placeholder(param)


def _hide_type(ctx: Any) -> str:  # noqa: ARG001  (the caller passes it by name)
    """Return an empty string: the name of an argument already says what it is."""
    return ""


def _get_placeholder(option: TyperOption) -> str:
    if option.type_descriptor.is_datetime:
        return _DATE if len(option.type_descriptor.parameter_info.formats or ()) == 1 else _TIME
    name = get_type_name(option)
    return _PLACEHOLDERS.get(name, name.upper())


def get_type_name(option: TyperOption) -> str:
    """Return the type name of an option's value, or of one item if the option is repeatable."""
    kind: Any = option.type_descriptor.annotation
    if get_origin(kind) in {Union, types.UnionType}:
        kind = next(part for part in get_args(kind) if part is not type(None))
    if get_origin(kind) in {list, tuple}:
        kind = get_args(kind)[0]
    return getattr(kind, "__name__", str(kind))
