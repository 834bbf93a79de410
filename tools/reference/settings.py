"""`settings.md`: every variable and every table of `florin.toml`, from the settings' fields."""

from __future__ import annotations

import dataclasses
import json
import types
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from florin_sandbox.demo_accounts import DEMO_VARIABLES
from florin_server import settings as config
from florin_server.rails.evm.forwarder_settings import ForwarderSettings
from florin_server.rails.evm.larger_amounts import LargerAmounts
from florin_server.rails.evm.settings import EvmAssetSettings, EvmChainSettings, EvmCoinSettings
from florin_server.rails.pricing import settings as pricing
from florin_server.rails.solana.settings import (
    SolanaAssetSettings,
    SolanaChainSettings,
    SolanaCoinSettings,
)
from florin_server.web.headers import GATEWAY_SETTINGS
from grpc_rest_gateway.settings import GuardSettings, ServerSettings
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from tools.reference.markdown import format_code, format_sentence, render_page, render_table
from tools.reference.units import get_unit

SettingsModel = type[BaseModel]

PREFIX = "FLORIN_"
# tables that variables can set too, by their place in florin.toml
NAMED_TABLES: Mapping[str, SettingsModel] = {
    "database": config.DatabaseSettings,
    "embedded": config.EmbeddedChainSettings,
    "embedded_solana": config.EmbeddedSolanaSettings,
    "prices": pricing.PriceSettings,
    "limits": config.LimitSettings,
    "failed_fees": config.FailedFeeSettings,
    "failed_gas": config.FailedGasSettings,
    "archive": config.ArchiveSettings,
    "capture": config.CaptureSettings,
    "app_links": config.AppLinkSettings,
    "checkout": config.CheckoutSettings,
    "tracing": config.TracingSettings,
    "webhooks": config.WebhookSettings,
    "event_sink": config.EventSinkSettings,
    "x402": config.X402Settings,
    "facilitated_gas": config.FacilitatedGasSettings,
    "facilitated_fees": config.FacilitatedFeeSettings,
}
# tables in lists, or with names that the operator chooses
LISTED_TABLES: Mapping[str, SettingsModel] = {
    "[[chains]]": EvmChainSettings,
    "[[chains.assets]]": EvmAssetSettings,
    "[chains.coin]": EvmCoinSettings,
    "[[chains.larger_amounts]]": LargerAmounts,
    "[chains.forwarder]": ForwarderSettings,
    "[[solana_chains]]": SolanaChainSettings,
    "[[solana_chains.assets]]": SolanaAssetSettings,
    "[solana_chains.coin]": SolanaCoinSettings,
    "[refund_credit.ASSET]": config.RefundCreditSettings,
    "[prices.http.NAME]": pricing.HttpSourceSettings,
    '`kind = "http"` in `[prices.pairs.ASSET]`': pricing.HttpPriceSettings,
    '`kind = "oracle"` in `[prices.pairs.ASSET]`': pricing.OraclePriceSettings,
    '`kind = "fixed"` in `[prices.pairs.ASSET]`': pricing.FixedPriceSettings,
    "[[app_links.android]]": config.AndroidApp,
    "[[checkout.wallets]]": config.WalletLink,
}
FIXED_SETTINGS = (GATEWAY_SETTINGS, GuardSettings(), ServerSettings())

_ABOUT = """\
Settings have these sources, in order of precedence: options of a command, variables `FLORIN_*`, one
`florin.toml` (in the state folder, or if it has none, in the current folder), and the defaults
below. `florin doctor` shows which file is used. Changes take effect after a restart.

The variable of a setting in a table has two underscores between the names:
`FLORIN_LIMITS__KEY_PER_MINUTE`. Lists and tables in a variable are JSON:
`FLORIN_CURRENCIES='["USD"]'`. Paths in `florin.toml` are relative to its folder.

*Required* means no default, *unset* means no value, which is a choice too."""
_ADDED_NOTE = """\
The files that `florin chain add` writes to `chains/` in the state folder have the same form, with
the table `[evm]` or `[solana]` for the chain, and `[[evm.assets]]` or `[[solana.assets]]` for its
tokens."""
_WRITTEN_NOTE = """\
Where test accounts work, `demo.env` in the state folder contains them for shells and examples. None
of these variables is a setting."""
_FIXED_NOTE = """\
These values are in the code, and cannot be set; they are listed because callers notice them. The
times of heads and bodies, the trusted proxies, the address and the port come from the settings."""

_HEADER = ("Key", "Variable", "Value", "Default", "Reason")


def render_settings() -> str:
    """Return the document."""
    return render_page(
        "Settings",
        _ABOUT,
        "## At the top of `florin.toml`",
        render_table(_HEADER, _list_rows(config.Settings, PREFIX, skip=NAMED_TABLES)),
        *(_render_named_table(name, model) for name, model in NAMED_TABLES.items()),
        "## Chains, tokens and sources\n\nThese have no variables of their own.\n\n" + _ADDED_NOTE,
        *(_render_listed_table(place, model) for place, model in LISTED_TABLES.items()),
        f"## Variables that Florin writes\n\n{_WRITTEN_NOTE}",
        render_table(
            ("Variable", "Meaning"),
            [
                (format_code(variable), format_sentence(why))
                for variable, why in DEMO_VARIABLES.items()
            ],
        ),
        f"## Bounds of the REST gateway\n\n{_FIXED_NOTE}",
        *(_render_fixed_settings(kind) for kind in FIXED_SETTINGS),
    )


def list_described_fields(model: SettingsModel) -> Iterator[tuple[str, FieldInfo, str]]:
    """Yield the fields of a table with their descriptions; raise LookupError if one has none."""
    for name, field in model.model_fields.items():
        if not field.description:
            raise LookupError(f"{model.__name__}.{name} has no description")
        yield name, field, field.description


def _render_named_table(name: str, model: SettingsModel) -> str:
    rows = _list_rows(model, f"{PREFIX}{name.upper()}__")
    return f"## `[{name}]`\n\n{_get_docstring(model)}\n\n{render_table(_HEADER, rows)}"


def _render_listed_table(place: str, model: SettingsModel) -> str:
    title = format_code(place) if place[0] == "[" else place
    header = tuple(column for column in _HEADER if column != "Variable")
    rows = [(key, *rest) for key, _, *rest in _list_rows(model, "")]
    return f"### {title}\n\n{_get_docstring(model)}\n\n{render_table(header, rows)}"


def _list_rows(
    model: SettingsModel, prefix: str, skip: Mapping[str, SettingsModel] | None = None
) -> Iterator[list[str]]:
    for name, field, why in list_described_fields(model):
        if name not in (skip or {}):
            value = _format_value(model.__name__, name, field)
            variable = format_code(f"{prefix}{name.upper()}")
            yield [format_code(name), variable, value, _format_default(field), format_sentence(why)]


def _render_fixed_settings(settings: Any) -> str:
    kind = type(settings)
    rows = []
    for field in dataclasses.fields(settings):
        # a separate table, just below
        if field.default_factory is not dataclasses.MISSING:
            continue
        why = field.metadata["why"]
        value = getattr(settings, field.name)
        number = type(value) in {int, float}
        unit = f" {get_unit(kind.__name__, field.name)}" if number else ""
        rows.append((format_code(field.name), _format_literal(value) + unit, format_sentence(why)))
    table = render_table(("Bound", "Value", "Reason"), rows)
    return f"### {kind.__name__}\n\n{_get_docstring(kind)}\n\n{table}"


def _get_docstring(kind: type[Any]) -> str:
    paragraphs = (kind.__doc__ or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _format_default(field: FieldInfo) -> str:
    if field.default is PydanticUndefined:
        return "*required*"
    return _format_literal(field.default)


def _format_literal(value: object) -> str:
    if value is None:
        return "*unset*"
    if isinstance(value, tuple | dict) and not value:
        return "*empty*"
    if isinstance(value, Path | str) and not isinstance(value, Enum):
        return format_code(str(value)) or "*empty*"
    # tables in a list
    return format_code(json.dumps(value, default=BaseModel.model_dump))


def _format_value(owner: str, name: str, field: FieldInfo) -> str:
    kind = _format_kind(field.annotation)
    if "number" not in kind:
        return kind
    return f"{kind}, {get_unit(owner, name)}{_format_bounds(field.metadata)}"


def _format_bounds(constraints: list[Any]) -> str:
    """Return the bounds of a number, after a semicolon."""
    least = next((constraint.ge for constraint in constraints if isinstance(constraint, Ge)), None)
    most = next((constraint.le for constraint in constraints if isinstance(constraint, Le)), None)
    if least is not None and most is not None:
        return f"; {least} to {most}"
    words = [f"{least} or more"] if least is not None else []
    words += [f"above {constraint.gt}" for constraint in constraints if isinstance(constraint, Gt)]
    words += [f"below {constraint.lt}" for constraint in constraints if isinstance(constraint, Lt)]
    words += [f"at most {most}"] if most is not None else []
    return "; " + ", ".join(words) if words else ""


_TYPE_WORDS: Mapping[Any, str] = {
    bool: "`true` or `false`",
    int: "number",
    float: "number",
    str: "text",
    Path: "path",
    SecretStr: "text",
}


def _format_kind(annotation: Any) -> str:
    """Return the possible values, in words."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if annotation in _TYPE_WORDS:
        return _TYPE_WORDS[annotation]
    if hasattr(annotation, "__metadata__"):
        return _format_kind(inner[0])
    if origin is Literal:
        return " or ".join(format_code(f'"{literal}"') for literal in inner)
    if origin in {Union, types.UnionType}:
        words = [
            _format_kind(member_type) for member_type in inner if member_type is not type(None)
        ]
        return " or ".join(dict.fromkeys(words))
    if origin is tuple:
        return f"list of {_format_kind(inner[0])}"
    if origin is dict:
        return f"table of {_format_kind(inner[1])}"
    return "table" if isinstance(annotation, type) and issubclass(annotation, BaseModel) else "text"
