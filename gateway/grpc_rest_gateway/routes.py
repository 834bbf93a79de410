"""Routes compiled from descriptors: all data of an RPC that a request needs, prepared once.

A service that violates the rules of google.api.http, or an option that contradicts its message,
fails the start with a RouteError that names the RPC.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from gateway_options.v1 import json_pb2
from google.api import annotations_pb2, http_pb2
from google.protobuf.descriptor import (
    Descriptor,
    FieldDescriptor,
    MethodDescriptor,
    ServiceDescriptor,
)
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from grpc_rest_gateway import jsonscan
from grpc_rest_gateway.errors import (
    make_invalid_body_error,
    make_invalid_parameter_error,
    make_unreadable_body_error,
)
from grpc_rest_gateway.headers import HeaderRules, Headers
from grpc_rest_gateway.httprule import PathRouter, PathTemplate, TemplateError, parse_template
from grpc_rest_gateway.jsoncodec import JsonCodec, JsonDecoder, JsonEncoder
from grpc_rest_gateway.jsonignored import IGNORED_KEY
from grpc_rest_gateway.jsonshape import INTEGER_BOUNDS, get_rule
from grpc_rest_gateway.parameters import (
    FieldError,
    FieldParameter,
    QueryFields,
    get_path_parameter,
    parse_query,
)
from grpc_rest_gateway.profiles import JsonProfile
from grpc_rest_gateway.rpc import RpcBackend, StreamMethod, UnaryMethod, format_method_name

POLL_PARAMETER = "maxPollMs"

# a path that needs no escape in a Link header
_REFERENCE = re.compile(r"/[A-Za-z0-9._~!$&'()*+,;=:@%/?-]*", re.ASCII)

# a body of `null` is read as an empty message
_EMPTY_OBJECT: dict[str, Any] = {}
_NO_BODY: Any = object()


class RouteError(ValueError):
    """A service that cannot be served over HTTP as declared."""


class PathFields:
    """The variables of one template, as fields of one request type."""

    __slots__ = ("_names", "_parameters")

    def __init__(self, template: PathTemplate, descriptor: Descriptor) -> None:
        paths = [variable.field_path for variable in template.variables]
        self._names = [".".join(path) for path in paths]
        self._parameters: dict[bool, list[FieldParameter]] = {
            canonical: [
                get_path_parameter(descriptor, path, is_canonical=canonical) for path in paths
            ]
            for canonical in (False, True)
        }

    def set_fields(self, message: Any, texts: Iterable[str], profile: JsonProfile) -> None:
        """Set the fields; raise RefusedError if a text is invalid for its field."""
        parameters = self._parameters[profile is JsonProfile.CANONICAL]
        for name, parameter, text in zip(self._names, parameters, texts, strict=True):
            parameter.set_value(message, name, [text])


class PollPlan:
    """A long poll's wait for a change: the stream that reports changes, and its field."""

    __slots__ = ("_field", "_path", "_request", "name", "stream_method", "waits_until_final")

    def __init__(
        self,
        method: MethodDescriptor,
        watch: MethodDescriptor,
        template: PathTemplate,
        stream: StreamMethod,
    ) -> None:
        answer = method.output_type
        for name in ("status", "is_final"):
            if name not in answer.fields_by_name:
                raise RouteError(f"{method.full_name}: a long poll needs the field {name}")
        holders = [f.name for f in watch.output_type.fields if f.message_type == answer]
        if watch.output_type != answer and len(holders) != 1:
            raise RouteError(f"{method.full_name}: {watch.name} does not stream the response")
        self._field = "" if watch.output_type == answer else holders[0]
        self._request = GetMessageClass(watch.input_type)
        self._path = PathFields(template, watch.input_type)
        self.stream_method = stream
        self.name = format_method_name(watch)
        self.waits_until_final = False

    def build_request(self, texts: Iterable[str], profile: JsonProfile) -> Message:
        """Return the request that opens the stream."""
        message = self._request()
        self._path.set_fields(message, texts, profile)
        return message

    def get_response(self, message: Any) -> Any:
        """Return the response inside a message of the stream."""
        return getattr(message, self._field) if self._field else message


class RouteBinding:
    """One HTTP method and path of one RPC."""

    def __init__(
        self,
        method: MethodDescriptor,
        rule: http_pb2.HttpRule,
        codec: JsonCodec,
        backend: RpcBackend,
    ) -> None:
        options = method.GetOptions().Extensions[json_pb2.rest]
        self.method = method
        self.name = format_method_name(method)
        self.http_method, path = _parse_pattern(rule)
        self.template = parse_template(path)
        self.is_read = self.http_method == "GET"
        self.success_status = options.success_status or 200
        self.body_bytes_max = int(options.body_bytes_max)
        self.cors = options.cors
        self.aliases = {a.alias.encode(): a.header.encode() for a in options.header_aliases}
        self.headers = _build_deprecation_headers(options)
        self.has_body = bool(rule.body)
        self._request = GetMessageClass(method.input_type)
        self._path = PathFields(self.template, method.input_type)
        body_field = self._find_body_field(rule)
        self._body_member = body_field.json_name if body_field else ""
        self.resume_field = self._find_resume_field()
        self._query_fields = self._build_query_fields(rule)
        self._canonical_query_fields = self._build_canonical_query_fields(rule, options, codec)
        self._decoders = self._build_decoders(codec, body_field)
        self._list_ignored = codec.get_ignored_lister(
            method.input_type, self._list_excluded(body_field)
        )
        self.encoders = self._build_encoders(codec, rule)
        self.unary_method: UnaryMethod | None = None
        self.stream_method: StreamMethod | None = None
        self.poll_plan: PollPlan | None = None
        self._connect(backend, options)

    def _connect(self, backend: RpcBackend, options: json_pb2.RestRule) -> None:
        method = self.method
        if method.client_streaming:
            raise RouteError("a client-streaming RPC has no HTTP form")
        if method.server_streaming:
            if not self.is_read:
                raise RouteError("a server-streaming RPC needs GET")
            self.stream_method = backend.get_stream(method)
        else:
            self.unary_method = backend.get_unary(method)
        if options.long_poll:
            watch = method.containing_service.methods_by_name.get(options.long_poll)
            if self.stream_method or watch is None or not watch.server_streaming:
                raise RouteError(f"{options.long_poll} is not a streaming RPC of the same service")
            self.poll_plan = PollPlan(method, watch, self.template, backend.get_stream(watch))
            # a read waits for any change, a call with an effect for the outcome
            self.poll_plan.waits_until_final = not self.is_read

    def _find_resume_field(self) -> str | None:
        """Return the field of a stream's request for the last version that the client received."""
        after = self.method.input_type.fields_by_name.get("after_version")
        resumes = (
            self.method.server_streaming and after is not None and after.type in INTEGER_BOUNDS
        )
        return "after_version" if resumes else None

    def _find_body_field(self, rule: http_pb2.HttpRule) -> FieldDescriptor | None:
        if rule.body and self.is_read:
            raise RouteError("a GET has no body")
        if not rule.body or rule.body == "*":
            return None
        field = self.method.input_type.fields_by_name.get(rule.body)
        if field is None:
            raise RouteError(f"the body field {rule.body!r} is unknown or nested")
        if any(v.field_path[0] == rule.body for v in self.template.variables):
            raise RouteError(f"the body field {rule.body!r} is bound by the path")
        return field

    def _list_bound_paths(self, rule: http_pb2.HttpRule) -> frozenset[tuple[str, ...]]:
        """Return the fields that a query cannot set."""
        bound = {variable.field_path for variable in self.template.variables}
        if self.resume_field is not None:
            # the value of Last-Event-ID comes only from that header
            bound.add((self.resume_field,))
        if rule.body not in {"", "*"}:
            bound.add((rule.body,))
        return frozenset(bound)

    def _build_query_fields(self, rule: http_pb2.HttpRule) -> QueryFields:
        only = None
        if rule.body == "*":
            fields = self.method.input_type.fields
            only = frozenset(field.name for field in fields if get_rule(field).query)
        return QueryFields(self.method.input_type, self._list_bound_paths(rule), only)

    def _build_canonical_query_fields(
        self, rule: http_pb2.HttpRule, options: json_pb2.RestRule, codec: JsonCodec
    ) -> QueryFields:
        return QueryFields(
            self.method.input_type,
            self._list_bound_paths(rule),
            frozenset() if rule.body == "*" else None,
            is_canonical=True,
            ignore_unknown=codec.ignore_unknown,
            extra_names=frozenset({POLL_PARAMETER} if options.long_poll else ()),
        )

    def _build_decoders(
        self, codec: JsonCodec, body_field: FieldDescriptor | None
    ) -> dict[JsonProfile, JsonDecoder]:
        without = self._list_excluded(body_field)
        return {p: codec.get_decoder(self.method.input_type, p, without) for p in JsonProfile}

    def _list_excluded(self, body_field: FieldDescriptor | None) -> frozenset[str]:
        """Return the fields that are not members of the body: the path takes precedence."""
        if body_field is not None:
            return frozenset(f.name for f in self.method.input_type.fields) - {body_field.name}
        return frozenset(v.field_path[0] for v in self.template.variables if len(v.field_path) == 1)

    def _build_encoders(
        self, codec: JsonCodec, rule: http_pb2.HttpRule
    ) -> dict[JsonProfile, JsonEncoder]:
        member = ""
        if rule.response_body:
            field = self.method.output_type.fields_by_name.get(rule.response_body)
            if field is None:
                raise RouteError(f"the response field {rule.response_body!r} is unknown or nested")
            member = field.json_name
        return {p: codec.get_encoder(self.method.output_type, p, member) for p in JsonProfile}

    def list_query_fields(self) -> list[FieldDescriptor]:
        """List the fields that a query can set."""
        return self._query_fields.list_fields()

    def list_path_fields(self) -> frozenset[str]:
        """Return the fields that the path sets, by proto name: they are not members of the body."""
        return frozenset(variable.field_path[0] for variable in self.template.variables)

    def create_request(self) -> Message:
        """Return the request that replaces one that cannot be parsed."""
        return self._request()

    def parse_request(
        self,
        body: bytes,
        query: bytes,
        path: tuple[str, ...],
        profile: JsonProfile,
        metadata: list[tuple[str, str | bytes]] | None = None,
    ) -> tuple[Any, int | None]:
        """Return the request, and the requested wait in milliseconds (None: no long poll).

        The query takes precedence over the body, the path over both. Ignored members of the body
        are added to the `metadata`, if the codec reports them. Raise RefusedError if a part cannot
        be parsed.
        """
        request = self._request()
        pairs = parse_query(query) if query else []
        held_ms = _find_poll_ms(pairs) if pairs and self.poll_plan is not None else None
        if self.has_body:
            self._parse_body(body, request, profile, metadata)
        if pairs:
            query_fields = (
                self._canonical_query_fields
                if profile is JsonProfile.CANONICAL
                else self._query_fields
            )
            query_fields.set_fields(request, pairs)
        self._path.set_fields(request, path, profile)
        return request, held_ms

    def _parse_body(
        self,
        body: bytes,
        request: Message,
        profile: JsonProfile,
        metadata: list[tuple[str, str | bytes]] | None,
    ) -> None:
        try:
            value = jsonscan.parse_json(body) if body else _NO_BODY
        except jsonscan.StrictJsonError as error:
            raise make_unreadable_body_error(str(error)) from None
        if value is None and not self._body_member:
            # a member that is null is absent; a body must be an object
            raise make_unreadable_body_error("must be an object")
        if value is _NO_BODY:
            value = _EMPTY_OBJECT
        elif self._body_member:
            value = {self._body_member: value}
        # before the faults: a required member can be missing because its name is misspelled
        if metadata is not None and (names := self._list_ignored(value, profile)):
            metadata.append((IGNORED_KEY, names))
        if issues := self._decoders[profile](value, request):
            if self._body_member:
                prefix = self._body_member
                issues = [
                    issue._replace(field=issue.field.removeprefix(prefix).removeprefix("."))
                    for issue in issues
                ]
            if not issues[0].field:
                raise make_unreadable_body_error(issues[0].message)
            raise make_invalid_body_error(issues)


def compile_routes(
    services: Iterable[ServiceDescriptor], backend: RpcBackend, codec: JsonCodec
) -> Iterator[RouteBinding]:
    """Yield every binding of every RPC with an HTTP rule; a RouteError names the invalid RPC."""
    for service in services:
        for method in service.methods:
            options = method.GetOptions()
            if not options.HasExtension(annotations_pb2.http):
                continue
            rule = options.Extensions[annotations_pb2.http]
            try:
                for binding in (rule, *rule.additional_bindings):
                    if binding is not rule and binding.additional_bindings:
                        raise RouteError("additional_bindings are nested")
                    yield RouteBinding(method, binding, codec, backend)
            except (RouteError, TemplateError, FieldError, LookupError, ValueError) as error:
                raise RouteError(f"{method.full_name}: {error}") from error


def check_aliases(bindings: Iterable[RouteBinding], rules: HeaderRules) -> None:
    """Raise a RouteError that names the RPC unless aliases map to forwarded headers."""
    for binding in bindings:
        try:
            rules.check_aliases(binding.aliases)
        except ValueError as error:
            raise RouteError(f"{binding.method.full_name}: {error}") from error


def add_routes(router: PathRouter[Any], bindings: Iterable[RouteBinding]) -> None:
    """Add bindings to a router; raise RouteError if two have the same shape."""
    for binding in bindings:
        try:
            router.add(binding.http_method, binding.template, binding)
        except TemplateError as error:
            raise RouteError(f"{binding.method.full_name}: {error}") from error


def _parse_pattern(rule: http_pb2.HttpRule) -> tuple[str, str]:
    kind = rule.WhichOneof("pattern")
    if kind is None:
        raise RouteError("the rule has no path")
    if kind == "custom":
        return rule.custom.kind.upper(), rule.custom.path
    return kind.upper(), getattr(rule, kind)


def _build_deprecation_headers(options: json_pb2.RestRule) -> Headers:
    since_s, successor = options.deprecated_since, options.successor
    if since_s < 0 or (successor and not since_s):
        raise RouteError("a successor needs deprecated_since")
    if successor and not _REFERENCE.fullmatch(successor):
        raise RouteError(f"the successor {successor!r} is not a path")
    headers = [(b"deprecation", b"@%d" % since_s)] if since_s else []
    if successor:
        headers.append((b"link", f'<{successor}>; rel="successor-version"'.encode("ascii")))
    return headers


def _find_poll_ms(pairs: list[tuple[str, str]]) -> int | None:
    poll_texts = [text for name, text in pairs if name == POLL_PARAMETER]
    if not poll_texts:
        return None
    if len(poll_texts) > 1:
        raise make_invalid_parameter_error(POLL_PARAMETER, "was given more than once")
    text = poll_texts[0]
    if not (text.isascii() and text.isdigit()):
        raise make_invalid_parameter_error(POLL_PARAMETER, "must be an integer, 0 or more")
    # longer values are clamped anyway, and converting them could be slow
    return int(text[:15]) if len(text) <= 15 else 10**15
