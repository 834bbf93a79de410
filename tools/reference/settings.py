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
from florin_gateway.settings import GatewaySettings, GuardSettings, ServerSettings
from florin_server import config
from florin_server.boot.demo_accounts import VARIABLES
from florin_server.pricing import settings as pricing
from florin_server.rails.evm.larger_amounts import LargerAmounts
from florin_server.rails.evm.settings import EvmAsset, EvmChain, EvmCoin
from florin_server.rails.solana.settings import SolanaAsset, SolanaChain, SolanaCoin
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from tools.reference.markdown import code, page, sentence, table
from tools.reference.units import unit_of

Model = type[BaseModel]

PREFIX = "FLORIN_"
# tables that variables can fill too, by their place in florin.toml
NAMED: Mapping[str, Model] = {
    "database": config.DatabaseSettings,
    "embedded": config.EmbeddedChain,
    "embedded_solana": config.EmbeddedSolana,
    "prices": pricing.PriceSettings,
    "limits": config.LimitSettings,
    "failed_fees": config.FailedFeeSettings,
    "failed_gas": config.FailedGasSettings,
    "capture": config.CaptureSettings,
    "app_links": config.AppLinkSettings,
    "checkout": config.CheckoutSettings,
    "tracing": config.TracingSettings,
    "webhooks": config.WebhookSettings,
}
# tables in lists, or under names of the operator's choice
LISTED: Mapping[str, Model] = {
    "[[chains]]": EvmChain,
    "[[chains.assets]]": EvmAsset,
    "[chains.coin]": EvmCoin,
    "[[chains.larger_amounts]]": LargerAmounts,
    "[[solana_chains]]": SolanaChain,
    "[[solana_chains.assets]]": SolanaAsset,
    "[solana_chains.coin]": SolanaCoin,
    "[refund_credit.ASSET]": config.RefundCredit,
    "[prices.http.NAME]": pricing.HttpSource,
    '`kind = "http"` in `[prices.pairs.ASSET]`': pricing.FromHttp,
    '`kind = "oracle"` in `[prices.pairs.ASSET]`': pricing.FromOracle,
    '`kind = "fixed"` in `[prices.pairs.ASSET]`': pricing.Fixed,
    "[[app_links.android]]": config.AndroidApp,
    "[[checkout.wallets]]": config.WalletLink,
}
FIXED = (GatewaySettings, GuardSettings, ServerSettings)

_ABOUT = """\
Settings come from, the first one first: options of a command, variables `FLORIN_*`, one
`florin.toml` (that of the state folder, or if it has none, that of the folder where the command is
given), the defaults below. `florin doctor` tells which file counts. Changes count after a restart.

The variable of a setting in a table has two underscores between the names:
`FLORIN_LIMITS__KEY_PER_MINUTE`. Lists and tables in a variable are JSON:
`FLORIN_CURRENCIES='["USD"]'`. Files that `florin.toml` names are looked for from its folder.

*Required* stands for no default, *unset* for nothing, which is a choice too."""
_ADDED = """\
What `florin chain add` writes to `chains/` in the state folder is the same, with the table `[evm]`
or `[solana]` for the chain and `[[evm.assets]]` or `[[solana.assets]]` for its tokens."""
_WRITTEN = """\
Where test accounts work, `demo.env` in the state folder tells shells and examples about them. None
of these is a setting."""
_FIXED = """\
These are in the code, and not yours to set; they are here because callers meet them. The times of
heads and bodies, the trusted proxies, the address and the port come from the settings above."""

_HEADER = ("Key", "Variable", "Value", "Default", "Reason")


def settings() -> str:
    """The document."""
    return page(
        "Settings",
        _ABOUT,
        "## At the top of `florin.toml`",
        table(_HEADER, _rows(config.Settings, PREFIX, skip=NAMED)),
        *(_named(name, model) for name, model in NAMED.items()),
        "## Chains, tokens and sources\n\nThese have no variables of their own.\n\n" + _ADDED,
        *(_listed(place, model) for place, model in LISTED.items()),
        f"## Variables that Florin writes\n\n{_WRITTEN}",
        table(
            ("Variable", "Meaning"), [(code(one), sentence(why)) for one, why in VARIABLES.items()]
        ),
        f"## Bounds of the REST gateway\n\n{_FIXED}",
        *(_fixed(kind) for kind in FIXED),
    )


def described(model: Model) -> Iterator[tuple[str, FieldInfo, str]]:
    """The fields of a table with their reasons. LookupError for one that has none."""
    for name, field in model.model_fields.items():
        if not field.description:
            raise LookupError(f"{model.__name__}.{name} has no description")
        yield name, field, field.description


def _named(name: str, model: Model) -> str:
    rows = _rows(model, f"{PREFIX}{name.upper()}__")
    return f"## `[{name}]`\n\n{_doc(model)}\n\n{table(_HEADER, rows)}"


def _listed(place: str, model: Model) -> str:
    title = code(place) if place[0] == "[" else place
    header = tuple(one for one in _HEADER if one != "Variable")
    rows = [(key, *rest) for key, _, *rest in _rows(model, "")]
    return f"### {title}\n\n{_doc(model)}\n\n{table(header, rows)}"


def _rows(
    model: Model, prefix: str, skip: Mapping[str, Model] | None = None
) -> Iterator[list[str]]:
    for name, field, why in described(model):
        if name not in (skip or {}):
            value = _value(model.__name__, name, field)
            variable = code(f"{prefix}{name.upper()}")
            yield [code(name), variable, value, _default(field), sentence(why)]


def _fixed(kind: type[Any]) -> str:
    rows = []
    for field in dataclasses.fields(kind):
        # a table of its own, just below
        if field.default_factory is not dataclasses.MISSING:
            continue
        why = field.metadata["why"]
        number = type(field.default) in {int, float}
        unit = f" {unit_of(kind.__name__, field.name)}" if number else ""
        rows.append((code(field.name), _literal(field.default) + unit, sentence(why)))
    return f"### {kind.__name__}\n\n{_doc(kind)}\n\n{table(('Bound', 'Value', 'Reason'), rows)}"


def _doc(kind: type[Any]) -> str:
    paragraphs = (kind.__doc__ or "").split("\n\n")
    return "\n\n".join(" ".join(one.split()) for one in paragraphs)


def _default(field: FieldInfo) -> str:
    if field.default is PydanticUndefined:
        return "*required*"
    return _literal(field.default)


def _literal(value: object) -> str:
    if value is None:
        return "*unset*"
    if isinstance(value, tuple | dict) and not value:
        return "*empty*"
    if isinstance(value, Path | str) and not isinstance(value, Enum):
        return code(str(value)) or "*empty*"
    # tables in a list
    return code(json.dumps(value, default=BaseModel.model_dump))


def _value(owner: str, name: str, field: FieldInfo) -> str:
    kind = _kind(field.annotation)
    if "number" not in kind:
        return kind
    return f"{kind}, {unit_of(owner, name)}{_bounds(field.metadata)}"


def _bounds(found: list[Any]) -> str:
    """The bounds of a number, behind a semicolon."""
    least = next((one.ge for one in found if isinstance(one, Ge)), None)
    most = next((one.le for one in found if isinstance(one, Le)), None)
    if least is not None and most is not None:
        return f"; {least} to {most}"
    words = [f"{least} or more"] if least is not None else []
    words += [f"above {one.gt}" for one in found if isinstance(one, Gt)]
    words += [f"below {one.lt}" for one in found if isinstance(one, Lt)]
    words += [f"at most {most}"] if most is not None else []
    return "; " + ", ".join(words) if words else ""


_WORDS: Mapping[Any, str] = {
    bool: "`true` or `false`",
    int: "number",
    float: "number",
    str: "text",
    Path: "path",
    SecretStr: "text",
}


def _kind(annotation: Any) -> str:
    """What can be written, in words."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if annotation in _WORDS:
        return _WORDS[annotation]
    if hasattr(annotation, "__metadata__"):
        return _kind(inner[0])
    if origin is Literal:
        return " or ".join(code(f'"{one}"') for one in inner)
    if origin in {Union, types.UnionType}:
        words = [_kind(one) for one in inner if one is not type(None)]
        return " or ".join(dict.fromkeys(words))
    if origin is tuple:
        return f"list of {_kind(inner[0])}"
    if origin is dict:
        return f"table of {_kind(inner[1])}"
    return "table" if isinstance(annotation, type) and issubclass(annotation, BaseModel) else "text"
