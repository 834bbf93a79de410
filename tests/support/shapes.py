"""What a JSON value has beyond its schema."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def resolved(document: Json, schema: Json) -> Json:
    """The schema behind references into the document."""
    while "$ref" in schema:
        found: Any = document
        for step in schema["$ref"].removeprefix("#/").split("/"):
            found = found[step.replace("~1", "/").replace("~0", "~")]
        schema = found
    return schema


def undocumented(document: Json, schema: Json, value: Any, path: str = "") -> list[str]:
    """The paths of members that the schema does not name."""
    schema = resolved(document, schema)
    if isinstance(value, list):
        items = schema.get("items", {})
        return [
            found
            for index, item in enumerate(value)
            for found in undocumented(document, items, item, f"{path}[{index}]")
        ]
    if not isinstance(value, dict):
        return []
    named: Json = dict(schema.get("properties", {}))
    for part in schema.get("allOf", []):
        named |= resolved(document, part).get("properties", {})
    kinds = schema.get("oneOf", []) + schema.get("anyOf", [])
    if kinds:
        return min((undocumented(document, kind, value, path) for kind in kinds), key=len)
    if not named:
        # an object of any members
        return []
    return [
        found
        for name, member in value.items()
        for found in (
            undocumented(document, named[name], member, f"{path}.{name}")
            if name in named
            else [f"{path}.{name}"]
        )
    ]
