"""How `--help` reads: whole summaries, in sections, and placeholders in words."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from typing import Any, Final, Union, get_args, get_origin

from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

# in this order; commands of other names follow in a section of their own
SECTIONS: Final[Mapping[str, Sequence[str]]] = {
    "Run Florin": ("up", "serve", "worker", "gateway", "demo", "lab", "simulate"),
    "Take and make payments": (
        *("payments", "pay", "merchants", "webhooks", "listen", "trigger"),
        *("export", "verify-receipt"),
    ),
    "Accounts": ("partners", "keys", "wallets", "versions", "customers"),
    "Money and chains": ("chain", "ledger", "payouts", "executors", "receipt-keys", "sanctions"),
    "Look after it": ("doctor", "quarantine", "leases", "store", "migrate", "faults", "completion"),
}
_OTHERS: Final = "Commands"
_PLACEHOLDERS: Final = {
    "str": "TEXT",
    "int": "NUMBER",
    "float": "NUMBER",
    "Path": "PATH",
}
# whole times may be given where a date alone means its beginning
_DATE, _TIME = "YYYY-MM-DD", "YYYY-MM-DD[THH:MM:SSZ]"


class ReadableCommand(TyperCommand):
    """A command whose help shows words in the place of Python's types."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        _name_placeholders(self.params)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return what follows the command's name, without braces."""
        pieces = super().collect_usage_pieces(ctx)
        return [piece.replace("{", "").replace("}", "") for piece in pieces]


class ReadableGroup(TyperGroup):
    """A group whose help shows summaries whole."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """Write the commands' names and summaries, in sections if several fit."""
        shown = {name: one for name, one in self.commands.items() if not one.hidden}
        sections = {
            title: [name for name in names if name in shown]
            for title, names in (SECTIONS if self.name == "florin" else {}).items()
        }
        known = {name for names in sections.values() for name in names}
        sections[_OTHERS] = [name for name in shown if name not in known]
        for title, names in sections.items():
            rows = [(name, _summary(shown[name].help)) for name in names]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def _summary(text: str | None) -> str:
    """Return the first paragraph, whole: `e.g.` ends no sentence."""
    return " ".join((text or "").split("\n\n")[0].split())


def _name_placeholders(params: Sequence[Any]) -> None:
    for one in params:
        if isinstance(one, TyperArgument):
            one.metavar = one.metavar or one.name.upper()
            one.display_type_rich = _no_type  # type: ignore[method-assign]
        elif isinstance(one, TyperOption) and not one.is_flag:
            one.metavar = one.metavar or _placeholder(one)


def _no_type(ctx: Any) -> str:  # noqa: ARG001  (it is named by who calls)
    """Return nothing: the name of an argument says what it is."""
    return ""


def _placeholder(option: TyperOption) -> str:
    if option.type_descriptor.is_datetime:
        return _DATE if len(option.type_descriptor.parameter_info.formats or ()) == 1 else _TIME
    name = type_name(option)
    return _PLACEHOLDERS.get(name, name.upper())


def type_name(option: TyperOption) -> str:
    """Return the name of the type of an option's value: of an item, where it takes several."""
    kind: Any = option.type_descriptor.annotation
    if get_origin(kind) in {Union, types.UnionType}:
        kind = next(part for part in get_args(kind) if part is not type(None))
    if get_origin(kind) in {list, tuple}:
        kind = get_args(kind)[0]
    return getattr(kind, "__name__", str(kind))
