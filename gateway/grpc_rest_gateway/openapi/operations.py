"""Operations of bindings: path, parameters, request body and success response."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from google.api import annotations_pb2
from google.protobuf.descriptor import FieldDescriptor, MethodDescriptor, ServiceDescriptor

from grpc_rest_gateway.jsoncodec import JsonCodec
from grpc_rest_gateway.jsonshape import get_rule
from grpc_rest_gateway.openapi.schemas import JsonSchema, SchemaRegistry
from grpc_rest_gateway.routes import POLL_PARAMETER, RouteBinding, RouteError, compile_routes
from grpc_rest_gateway.rpc import StreamMethod, UnaryMethod
from grpc_rest_gateway.settings import GatewaySettings

_VARIABLE = re.compile(r"\{([A-Za-z0-9_.]+)(?:=[^}]*)?\}")


@dataclass(frozen=True, slots=True)
class OpenApiOperation:
    """One binding as an operation object, without the parts that only the service knows."""

    binding: RouteBinding
    path: str
    parts: JsonSchema
    # True for a binding of `additional_bindings`
    is_additional: bool = False

    @property
    def method(self) -> MethodDescriptor:
        """Return the RPC."""
        return self.binding.method

    @property
    def verb(self) -> str:
        """Return the HTTP method in lower case, as OpenAPI writes it."""
        return self.binding.http_method.lower()


def list_operations(
    services: Iterable[ServiceDescriptor],
    schemas: SchemaRegistry,
    settings: GatewaySettings | None = None,
) -> Iterator[OpenApiOperation]:
    """Yield every route of the services; raise RouteError if a route cannot be described.

    The `settings` are those of the gateway that serves them.
    """
    settings = settings or GatewaySettings()
    seen: dict[str, int] = {}
    for binding in compile_routes(services, _UncallableBackend(), JsonCodec()):
        _check_body_fields(binding.method)
        name = f"{binding.method.containing_service.name}_{binding.method.name}"
        seen[name] = seen.get(name, 0) + 1
        parts: JsonSchema = {"operationId": name if seen[name] == 1 else f"{name}_{seen[name]}"}
        parts |= _build_description(binding.method, schemas)
        if parameters := [
            *_list_path_parameters(binding, schemas),
            *_list_query_parameters(binding, schemas, settings),
        ]:
            parts["parameters"] = parameters
        if binding.has_body:
            parts["requestBody"] = _build_request_body(binding, schemas)
        parts["responses"] = _build_success_responses(binding, schemas, settings)
        yield OpenApiOperation(binding, _format_path(binding), parts, seen[name] > 1)


def _check_body_fields(method: MethodDescriptor) -> None:
    rule = method.GetOptions().Extensions[annotations_pb2.http]
    for binding in (rule, *rule.additional_bindings):
        if binding.body not in {"", "*"} or binding.response_body:
            raise RouteError(f"{method.full_name}: a field as a whole body is not described")


def _build_description(method: MethodDescriptor, schemas: SchemaRegistry) -> JsonSchema:
    text = schemas.add_description(method.full_name, {}).get("description", "")
    first, dot, _ = text.partition(". ")
    parts: JsonSchema = {"summary": first.removesuffix(".")} if first else {}
    if dot:
        parts["description"] = text
    if method.GetOptions().deprecated:
        parts["deprecated"] = True
    return parts


def _format_path(binding: RouteBinding) -> str:
    names = binding.method.input_type.fields_by_name

    def spelled(match: re.Match[str]) -> str:
        field = names.get(match[1])
        return "{" + (field.json_name if field else match[1]) + "}"

    return _VARIABLE.sub(spelled, binding.template.text)


def _list_path_parameters(binding: RouteBinding, schemas: SchemaRegistry) -> Iterator[JsonSchema]:
    for variable in binding.template.variables:
        (name,) = variable.field_path
        field = binding.method.input_type.fields_by_name[name]
        # an empty segment makes a different path
        schema = {**schemas.build_parameter(field), "minLength": 1}
        yield schemas.add_description(
            field.full_name,
            {"name": field.json_name, "in": "path", "required": True, "schema": schema},
        )


def _list_query_parameters(
    binding: RouteBinding, schemas: SchemaRegistry, settings: GatewaySettings
) -> Iterator[JsonSchema]:
    for field in binding.list_query_fields():
        yield _build_query_parameter(field, schemas)
    if binding.poll_plan is not None:
        ends = "it is final" if binding.poll_plan.waits_until_final else "it differs"
        yield {
            "name": POLL_PARAMETER,
            "in": "query",
            "description": f"Longest wait for the response until {ends}, in milliseconds; "
            f"{settings.poll_s_max:g} seconds at most.",
            "schema": {"type": "integer", "minimum": 0},
        }


def _build_query_parameter(field: FieldDescriptor, schemas: SchemaRegistry) -> JsonSchema:
    parameter: JsonSchema = {"name": field.json_name, "in": "query"}
    if field.is_repeated:
        parameter |= {"style": "form", "explode": True}
    if field.GetOptions().deprecated:
        parameter["deprecated"] = True
    parameter["schema"] = schemas.build_parameter(field)
    parameter = schemas.add_description(field.full_name, parameter)
    if get_rule(field).comma:
        description = parameter.get("description", "")
        parameter["description"] = f"{description} Repeatable, or comma-separated.".lstrip()
    return parameter


def _build_request_body(binding: RouteBinding, schemas: SchemaRegistry) -> JsonSchema:
    kind = binding.method.input_type
    schema = schemas.build_body(kind, binding.list_path_fields())
    shape = schemas.components[schema["$ref"].rpartition("/")[2]]
    return {
        "required": bool(shape.get("required")),
        "content": {"application/json": {"schema": schema}},
    }


def _build_success_responses(
    binding: RouteBinding, schemas: SchemaRegistry, settings: GatewaySettings
) -> JsonSchema:
    kind = binding.method.output_type
    schema = schemas.build_response(kind)
    if binding.stream_method is None:
        content: JsonSchema = {"application/json": {"schema": schema}}
        what = schemas.add_description(kind.full_name, {}).get("description", "Success.")
        return {str(binding.success_status): {"description": what, "content": content}}
    return build_stream_responses(
        schema, settings.stream_event, is_versioned="version" in kind.fields_by_name
    )


def build_stream_responses(
    schema: JsonSchema, event_name: str, *, is_versioned: bool = True
) -> JsonSchema:
    """Describe the responses of a stream of such events, whose data match a schema.

    Events have ids if their messages are versioned.
    """
    description = "Server-sent events; the schema describes one event."
    data_schema = {
        "type": "string",
        "contentMediaType": "application/json",
        "contentSchema": schema,
    }
    identity = {"type": "string", "pattern": "^[0-9]+$", "description": "The version."}
    event: JsonSchema = {
        "type": "object",
        "required": ["event", *(["id"] if is_versioned else []), "data"],
        "properties": {
            "event": {"const": event_name},
            **({"id": identity} if is_versioned else {}),
            "data": data_schema,
        },
    }
    return {
        "200": {"description": description, "content": {"text/event-stream": {"schema": event}}},
        "204": {"description": "No newer version exists, and none will follow."},
    }


class _UncallableBackend:
    """A backend for routes that are described and never called."""

    def get_unary(self, method: MethodDescriptor) -> UnaryMethod:
        async def call(*_asked: Any, **_named: Any) -> Any:
            raise LookupError(method.full_name)

        return call

    def get_stream(self, method: MethodDescriptor) -> StreamMethod:
        def call(*_asked: Any, **_named: Any) -> Any:
            raise LookupError(method.full_name)

        return call

    async def close(self) -> None:
        """Do nothing: the backend has no open connection."""
