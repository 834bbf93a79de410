"""Operations of bindings: path, parameters, request body and the answer of a success."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from google.api import annotations_pb2
from google.protobuf.descriptor import FieldDescriptor, MethodDescriptor, ServiceDescriptor

from florin_gateway.jsoncodec import Codec
from florin_gateway.jsonshape import rule_of
from florin_gateway.openapi.schemas import Schema, Schemas
from florin_gateway.routes import POLL_PARAMETER, Binding, RouteError, compile_routes
from florin_gateway.rpc import Stream, Unary
from florin_gateway.settings import GatewaySettings

_VARIABLE = re.compile(r"\{([A-Za-z0-9_.]+)(?:=[^}]*)?\}")


@dataclass(frozen=True, slots=True)
class Operation:
    """One binding as an operation object, without what only the service knows."""

    binding: Binding
    path: str
    parts: Schema

    @property
    def method(self) -> MethodDescriptor:
        """The RPC."""
        return self.binding.method

    @property
    def verb(self) -> str:
        """The HTTP method as OpenAPI writes it."""
        return self.binding.http_method.lower()


def operations_of(services: Iterable[ServiceDescriptor], schemas: Schemas) -> Iterator[Operation]:
    """Every route of the services; RouteError if one cannot be served or described."""
    seen: dict[str, int] = {}
    for binding in compile_routes(services, _Nowhere(), Codec()):
        _check_whole(binding.method)
        name = f"{binding.method.containing_service.name}_{binding.method.name}"
        seen[name] = seen.get(name, 0) + 1
        parts: Schema = {"operationId": name if seen[name] == 1 else f"{name}_{seen[name]}"}
        parts |= _told(binding.method, schemas)
        if parameters := [*_path(binding, schemas), *_query(binding, schemas)]:
            parts["parameters"] = parameters
        if binding.has_body:
            parts["requestBody"] = _body(binding, schemas)
        parts["responses"] = _success(binding, schemas)
        yield Operation(binding, _path_text(binding), parts)


def _check_whole(method: MethodDescriptor) -> None:
    rule = method.GetOptions().Extensions[annotations_pb2.http]
    for one in (rule, *rule.additional_bindings):
        if one.body not in {"", "*"} or one.response_body:
            raise RouteError(f"{method.full_name}: a field as a whole body is not described")


def _told(method: MethodDescriptor, schemas: Schemas) -> Schema:
    text = schemas.described(method.full_name, {}).get("description", "")
    first, dot, _ = text.partition(". ")
    parts: Schema = {"summary": first.removesuffix(".")} if first else {}
    if dot:
        parts["description"] = text
    if method.GetOptions().deprecated:
        parts["deprecated"] = True
    return parts


def _path_text(binding: Binding) -> str:
    names = binding.method.input_type.fields_by_name

    def spelled(found: re.Match[str]) -> str:
        field = names.get(found[1])
        return "{" + (field.json_name if field else found[1]) + "}"

    return _VARIABLE.sub(spelled, binding.template.text)


def _path(binding: Binding, schemas: Schemas) -> Iterator[Schema]:
    for variable in binding.template.variables:
        (name,) = variable.field_path
        field = binding.method.input_type.fields_by_name[name]
        # an empty segment is another path
        schema = {**schemas.parameter(field), "minLength": 1}
        yield schemas.described(
            field.full_name,
            {"name": field.json_name, "in": "path", "required": True, "schema": schema},
        )


def _query(binding: Binding, schemas: Schemas) -> Iterator[Schema]:
    for field in binding.query_fields():
        yield _query_parameter(field, schemas)
    if binding.poll is not None:
        ends = "it is final" if binding.poll.until_final else "it differs"
        yield {
            "name": POLL_PARAMETER,
            "in": "query",
            "description": f"Milliseconds for which the answer may be held until {ends}; at most "
            "25 seconds are.",
            "schema": {"type": "integer", "minimum": 0},
        }


def _query_parameter(field: FieldDescriptor, schemas: Schemas) -> Schema:
    parameter: Schema = {"name": field.json_name, "in": "query"}
    if field.is_repeated:
        parameter |= {"style": "form", "explode": True}
    if field.GetOptions().deprecated:
        parameter["deprecated"] = True
    parameter["schema"] = schemas.parameter(field)
    parameter = schemas.described(field.full_name, parameter)
    if rule_of(field).comma:
        told = parameter.get("description", "")
        parameter["description"] = f"{told} Repeated, or with commas between.".lstrip()
    return parameter


def _body(binding: Binding, schemas: Schemas) -> Schema:
    kind = binding.method.input_type
    schema = schemas.body(kind, binding.fields_beside_body())
    shape = schemas.components[schema["$ref"].rpartition("/")[2]]
    return {
        "required": bool(shape.get("required")),
        "content": {"application/json": {"schema": schema}},
    }


def _success(binding: Binding, schemas: Schemas) -> Schema:
    kind = binding.method.output_type
    schema = schemas.answer(kind)
    if binding.stream is None:
        content: Schema = {"application/json": {"schema": schema}}
        what = schemas.described(kind.full_name, {}).get("description", "Success.")
        return {str(binding.success_status): {"description": what, "content": content}}
    return streamed(schema)


def streamed(schema: Schema) -> Schema:
    """The answers of a stream of events whose data are as a schema says."""
    told = "Server-sent events; this is the schema of one event."
    text = {"type": "string", "contentMediaType": "application/json", "contentSchema": schema}
    event: Schema = {
        "type": "object",
        "required": ["event", "id", "data"],
        "properties": {
            "event": {"const": GatewaySettings().stream_event},
            "id": {"type": "string", "pattern": "^[0-9]+$", "description": "The version."},
            "data": text,
        },
    }
    return {
        "200": {"description": told, "content": {"text/event-stream": {"schema": event}}},
        "204": {"description": "There is nothing newer, and there never will be."},
    }


class _Nowhere:
    """A back end for routes that are described and never called."""

    def unary(self, method: MethodDescriptor) -> Unary:
        async def call(*_asked: Any, **_named: Any) -> Any:
            raise LookupError(method.full_name)

        return call

    def stream(self, method: MethodDescriptor) -> Stream:
        def call(*_asked: Any, **_named: Any) -> Any:
            raise LookupError(method.full_name)

        return call

    async def close(self) -> None:
        """Nothing is open."""
