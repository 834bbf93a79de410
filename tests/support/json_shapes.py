"""Members that a JSON value has beyond its schema."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def resolve_schema(document: Json, schema: Json) -> Json:
    """Return the schema behind references into the document."""
    while "$ref" in schema:
        found_document: Any = document
        for step in schema["$ref"].removeprefix("#/").split("/"):
            found_document = found_document[step.replace("~1", "/").replace("~0", "~")]
        schema = found_document
    return schema


def list_undocumented(document: Json, schema: Json, value: Any, path: str = "") -> list[str]:
    """Return the paths of members that the schema does not name."""
    schema = resolve_schema(document, schema)
    if isinstance(value, list):
        items = schema.get("items", {})
        return [
            result
            for index, item in enumerate(value)
            for result in list_undocumented(document, items, item, f"{path}[{index}]")
        ]
    if not isinstance(value, dict):
        return []
    named: Json = dict(schema.get("properties", {}))
    for part in schema.get("allOf", []):
        named |= resolve_schema(document, part).get("properties", {})
    kinds = schema.get("oneOf", []) + schema.get("anyOf", [])
    if kinds:
        return min((list_undocumented(document, kind, value, path) for kind in kinds), key=len)
    if not named:
        # an object of any members
        return []
    return [
        result
        for name, member in value.items()
        for result in (
            list_undocumented(document, named[name], member, f"{path}.{name}")
            if name in named
            else [f"{path}.{name}"]
        )
    ]
