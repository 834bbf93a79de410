"""The structure of the deployed API, and what differs from it.

A type is written as `string`, `integer`, `number`, `boolean`, `object` or `any`; `=a|b` is one of
these texts; `@Name` is a named type; `[type]` is an array, a mapping an object whose members may be
absent if their names end in `~`. A `?` after it, or `{"?": type}`, allows null; `{"|": [types]}` is
one of several.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.shapes import Json, resolved

FOLDER = Path(__file__).parents[1] / "wire" / "deployed"
TYPES: Json = json.loads((FOLDER / "types.json").read_text())
# errors are told by their codes, or as a named type
OPERATIONS: Json = json.loads((FOLDER / "operations.json").read_text())

_PLAIN = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "object": dict,
}


def opened(kind: Any) -> tuple[list[Any], bool]:
    """The alternatives of a type, and whether null is one."""
    if isinstance(kind, str):
        null = kind.endswith("?")
        name = kind.removesuffix("?")
        if name.startswith("@"):
            inner, inner_null = opened(TYPES[name[1:]])
            return inner, null or inner_null
        return [name], null
    if isinstance(kind, dict) and kind.keys() == {"?"}:
        return opened(kind["?"])[0], True
    if isinstance(kind, dict) and kind.keys() == {"|"}:
        inner = [opened(one) for one in kind["|"]]
        return [k for kinds, _ in inner for k in kinds], any(null for _, null in inner)
    return [kind], False


def faults(kind: Any, value: Any, path: str = "") -> list[str]:
    """What is wrong with a value of a type."""
    kinds, null = opened(kind)
    if value is None:
        return [] if null or "any" in kinds else [f"{path} is null"]
    return min((list(_faults(one, value, path)) for one in kinds), key=len)


def _faults(kind: Any, value: Any, path: str) -> Iterator[str]:
    if isinstance(kind, list):
        if not isinstance(value, list):
            yield f"{path} is no array"
            return
        for index, item in enumerate(value):
            yield from faults(kind[0], item, f"{path}[{index}]")
    elif isinstance(kind, dict):
        if not isinstance(value, dict):
            yield f"{path} is no object"
            return
        for name, member in kind.items():
            own = name.removesuffix("~")
            if own in value:
                yield from faults(member, value[own], f"{path}.{own}")
            elif own == name:
                yield f"{path}.{own} is missing"
    elif kind.startswith("="):
        if value not in kind[1:].split("|"):
            yield f"{path} is {value!r}"
    elif kind != "any" and (
        not isinstance(value, _PLAIN[kind]) or (isinstance(value, bool) and kind != "boolean")
    ):
        yield f"{path} is no {kind}"


def differences(document: Json, schema: Json, kind: Any, path: str = "") -> list[str]:
    """How values of a schema of ours could break the type."""
    kinds, null = opened(kind)
    if "any" in kinds:
        return []
    ours, our_null = _alternatives(document, schema)
    found = [f"{path} may be null"] if our_null and not null else []
    for one in ours:
        found += min((list(_differences(document, one, k, path)) for k in kinds), key=len)
    return found


def _alternatives(document: Json, schema: Json) -> tuple[list[Json], bool]:
    schema = resolved(document, schema)
    if kinds := schema.get("oneOf"):
        inner = [_alternatives(document, one) for one in kinds]
        return [k for some, _ in inner for k in some], any(null for _, null in inner)
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    found = [{**schema, "type": kind} for kind in kinds if kind != "null"]
    return found or ([schema] if schema.get("type") != "null" else []), "null" in kinds


def _differences(document: Json, ours: Json, kind: Any, path: str) -> Iterator[str]:
    if isinstance(kind, list):
        if ours.get("type") != "array":
            yield f"{path} may be no array"
        elif "items" in ours:
            yield from differences(document, ours["items"], kind[0], f"{path}[]")
    elif isinstance(kind, dict):
        if ours.get("type") != "object":
            yield f"{path} may be no object"
            return
        for name, member in kind.items():
            own = name.removesuffix("~")
            if own not in ours["properties"]:
                yield f"{path}.{own} is not there" if own == name else f"{path}.{own} never comes"
                continue
            if own == name and own not in ours.get("required", []):
                yield f"{path}.{own} may be absent"
            yield from differences(document, ours["properties"][own], member, f"{path}.{own}")
    elif kind.startswith("="):
        texts = set(ours.get("enum", [ours["const"]] if "const" in ours else ["anything"]))
        if more := sorted(texts - set(kind[1:].split("|"))):
            yield f"{path} may be {', '.join(more)}"
    elif ours.get("type") != kind and not (kind == "number" and ours.get("type") == "integer"):
        yield f"{path} may be no {kind}"
