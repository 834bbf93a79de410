"""The structure of the deployed API, and the differences from it.

A type is written as `string`, `integer`, `number`, `boolean`, `object` or `any`; `=a|b` is one of
these texts; `@Name` is a named type; `[type]` is an array. A mapping is an object; members are
optional if their names end in `~`. A `?` after it, or `{"?": type}`, allows null; `{"|": [types]}`
is one of several.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.json_shapes import Json, resolve_schema

FOLDER = Path(__file__).parents[1] / "wire" / "deployed"
TYPES: Json = json.loads((FOLDER / "types.json").read_text())
# errors are described by their codes, or as a named type
OPERATIONS: Json = json.loads((FOLDER / "operations.json").read_text())

_PLAIN = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "object": dict,
}


def parse_type(kind: Any) -> tuple[list[Any], bool]:
    """Return the alternatives of a type, and whether null is allowed."""
    if isinstance(kind, str):
        null = kind.endswith("?")
        name = kind.removesuffix("?")
        if name.startswith("@"):
            inner, inner_null = parse_type(TYPES[name[1:]])
            return inner, null or inner_null
        return [name], null
    if isinstance(kind, dict) and kind.keys() == {"?"}:
        return parse_type(kind["?"])[0], True
    if isinstance(kind, dict) and kind.keys() == {"|"}:
        inner = [parse_type(item) for item in kind["|"]]
        return [k for kinds, _ in inner for k in kinds], any(null for _, null in inner)
    return [kind], False


def list_faults(kind: Any, value: Any, path: str = "") -> list[str]:
    """Return the faults of a value of a type."""
    kinds, null = parse_type(kind)
    if value is None:
        return [] if null or "any" in kinds else [f"{path} is null"]
    return min((list(_iterate_faults(each_kind, value, path)) for each_kind in kinds), key=len)


def _iterate_faults(kind: Any, value: Any, path: str) -> Iterator[str]:
    if isinstance(kind, list):
        if not isinstance(value, list):
            yield f"{path} is no array"
            return
        for index, item in enumerate(value):
            yield from list_faults(kind[0], item, f"{path}[{index}]")
    elif isinstance(kind, dict):
        if not isinstance(value, dict):
            yield f"{path} is no object"
            return
        for name, member in kind.items():
            own = name.removesuffix("~")
            if own in value:
                yield from list_faults(member, value[own], f"{path}.{own}")
            elif own == name:
                yield f"{path}.{own} is missing"
    elif kind.startswith("="):
        if value not in kind[1:].split("|"):
            yield f"{path} is {value!r}"
    elif kind != "any" and (
        not isinstance(value, _PLAIN[kind]) or (isinstance(value, bool) and kind != "boolean")
    ):
        yield f"{path} is no {kind}"


def list_differences(document: Json, schema: Json, kind: Any, path: str = "") -> list[str]:
    """Return how values of one of Florin's schemas could break the type."""
    kinds, null = parse_type(kind)
    if "any" in kinds:
        return []
    ours, our_null = _list_alternatives(document, schema)
    results = [f"{path} may be null"] if our_null and not null else []
    for item in ours:
        results += min(
            (list(_iterate_differences(document, item, k, path)) for k in kinds), key=len
        )
    return results


def _list_alternatives(document: Json, schema: Json) -> tuple[list[Json], bool]:
    schema = resolve_schema(document, schema)
    if kinds := schema.get("oneOf"):
        inner = [_list_alternatives(document, kind) for kind in kinds]
        return [k for items, _ in inner for k in items], any(null for _, null in inner)
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    results = [{**schema, "type": kind} for kind in kinds if kind != "null"]
    return results or ([schema] if schema.get("type") != "null" else []), "null" in kinds


def _iterate_differences(document: Json, ours: Json, kind: Any, path: str) -> Iterator[str]:
    if isinstance(kind, list):
        if ours.get("type") != "array":
            yield f"{path} may be no array"
        elif "items" in ours:
            yield from list_differences(document, ours["items"], kind[0], f"{path}[]")
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
            yield from list_differences(document, ours["properties"][own], member, f"{path}.{own}")
    elif kind.startswith("="):
        texts = set(ours.get("enum", [ours["const"]] if "const" in ours else ["anything"]))
        if more := sorted(texts - set(kind[1:].split("|"))):
            yield f"{path} may be {', '.join(more)}"
    elif ours.get("type") != kind and not (kind == "number" and ours.get("type") == "integer"):
        yield f"{path} may be no {kind}"
