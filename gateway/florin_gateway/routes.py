"""Routes compiled from descriptors: everything about an RPC that a request needs, found once.

A service that breaks the rules of google.api.http, or an option that contradicts its message,
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

from florin_gateway import jsonscan
from florin_gateway.errors import invalid_body, invalid_parameter, unreadable_body
from florin_gateway.headers import HeaderRules, Headers
from florin_gateway.httprule import Router, Template, TemplateError, parse_template
from florin_gateway.jsoncodec import Codec, Decode, Encode
from florin_gateway.jsonshape import INTEGERS, rule_of
from florin_gateway.parameters import (
    FieldError,
    Parameter,
    QueryFields,
    parse_query,
    path_parameter,
)
from florin_gateway.profiles import Profile
from florin_gateway.rpc import Backend, Stream, Unary, short_name

POLL_PARAMETER = "maxPollMs"

# a path that needs no escape inside a Link header
_REFERENCE = re.compile(r"/[A-Za-z0-9._~!$&'()*+,;=:@%/?-]*", re.ASCII)

# a body of `null` reads as an empty message
_EMPTY: dict[str, Any] = {}
_NOTHING: Any = object()


class RouteError(ValueError):
    """A service that cannot be served over HTTP as declared."""


class PathFields:
    """The variables of one template, as fields of one request type."""

    __slots__ = ("_names", "_parameters")

    def __init__(self, template: Template, descriptor: Descriptor) -> None:
        paths = [variable.field_path for variable in template.variables]
        self._names = [".".join(path) for path in paths]
        self._parameters: dict[bool, list[Parameter]] = {
            canonical: [path_parameter(descriptor, path, canonical=canonical) for path in paths]
            for canonical in (False, True)
        }

    def apply(self, message: Any, texts: Iterable[str], profile: Profile) -> None:
        """Set them; RefusedError if a text is no value of its field."""
        parameters = self._parameters[profile is Profile.CANONICAL]
        for name, parameter, text in zip(self._names, parameters, texts, strict=True):
            parameter.put(message, name, [text])


class PollPlan:
    """How an answer is held until it changes: which stream tells of changes, and what in it."""

    __slots__ = ("_field", "_path", "_request", "name", "stream", "until_final")

    def __init__(
        self, method: MethodDescriptor, watch: MethodDescriptor, template: Template, stream: Stream
    ) -> None:
        answer = method.output_type
        for name in ("status", "is_final"):
            if name not in answer.fields_by_name:
                raise RouteError(f"{method.full_name}: a held answer needs the field {name}")
        holders = [f.name for f in watch.output_type.fields if f.message_type == answer]
        if watch.output_type != answer and len(holders) != 1:
            raise RouteError(f"{method.full_name}: {watch.name} does not tell of the answer")
        self._field = "" if watch.output_type == answer else holders[0]
        self._request = GetMessageClass(watch.input_type)
        self._path = PathFields(template, watch.input_type)
        self.stream = stream
        self.name = short_name(watch)
        self.until_final = False

    def request(self, texts: Iterable[str], profile: Profile) -> Message:
        """The request that opens the stream."""
        message = self._request()
        self._path.apply(message, texts, profile)
        return message

    def answer_in(self, message: Any) -> Any:
        """The answer that a message of the stream carries."""
        return getattr(message, self._field) if self._field else message


class Binding:
    """One HTTP method and path of one RPC."""

    def __init__(
        self, method: MethodDescriptor, rule: http_pb2.HttpRule, codec: Codec, backend: Backend
    ) -> None:
        options = method.GetOptions().Extensions[json_pb2.rest]
        self.method = method
        self.name = short_name(method)
        self.http_method, path = _pattern(rule)
        self.template = parse_template(path)
        self.reads = self.http_method == "GET"
        self.success_status = options.success_status or 200
        self.body_bytes_max = int(options.body_bytes_max)
        self.cors = options.cors
        self.aliases = {a.alias.encode(): a.header.encode() for a in options.header_aliases}
        self.headers = _deprecation(options)
        self.has_body = bool(rule.body)
        self._request = GetMessageClass(method.input_type)
        self._path = PathFields(self.template, method.input_type)
        body_field = self._check_body(rule)
        self._body_member = body_field.json_name if body_field else ""
        self.resume = self._resume_field()
        self._query = self._query_fields(rule)
        self._canonical_query = self._canonical_query_fields(rule, options, codec)
        self._decode = self._decoders(codec, body_field)
        self.encode = self._encoders(codec, rule)
        self.unary: Unary | None = None
        self.stream: Stream | None = None
        self.poll: PollPlan | None = None
        self._connect(backend, options)

    def _connect(self, backend: Backend, options: json_pb2.RestRule) -> None:
        method = self.method
        if method.client_streaming:
            raise RouteError("a stream of requests has no HTTP form")
        if method.server_streaming:
            if not self.reads:
                raise RouteError("a stream of answers needs GET")
            self.stream = backend.stream(method)
        else:
            self.unary = backend.unary(method)
        if options.long_poll:
            watch = method.containing_service.methods_by_name.get(options.long_poll)
            if self.stream or watch is None or not watch.server_streaming:
                raise RouteError(f"{options.long_poll} is no stream of the same service")
            self.poll = PollPlan(method, watch, self.template, backend.stream(watch))
            # a read asks what is new, whoever acts waits for the outcome
            self.poll.until_final = not self.reads

    def _resume_field(self) -> str | None:
        """The field of a stream's request that says what the client has seen already."""
        after = self.method.input_type.fields_by_name.get("after_version")
        resumes = self.method.server_streaming and after is not None and after.type in INTEGERS
        return "after_version" if resumes else None

    def _check_body(self, rule: http_pb2.HttpRule) -> FieldDescriptor | None:
        if rule.body and self.reads:
            raise RouteError("a GET has no body")
        if not rule.body or rule.body == "*":
            return None
        field = self.method.input_type.fields_by_name.get(rule.body)
        if field is None:
            raise RouteError(f"the body field {rule.body!r} is unknown or nested")
        if any(v.field_path[0] == rule.body for v in self.template.variables):
            raise RouteError(f"the body field {rule.body!r} is bound by the path")
        return field

    def _bound(self, rule: http_pb2.HttpRule) -> frozenset[tuple[str, ...]]:
        """The fields that no query sets."""
        bound = {variable.field_path for variable in self.template.variables}
        if self.resume is not None:
            # what comes in Last-Event-ID comes from nowhere else
            bound.add((self.resume,))
        if rule.body not in {"", "*"}:
            bound.add((rule.body,))
        return frozenset(bound)

    def _query_fields(self, rule: http_pb2.HttpRule) -> QueryFields:
        only = None
        if rule.body == "*":
            fields = self.method.input_type.fields
            only = frozenset(field.name for field in fields if rule_of(field).query)
        return QueryFields(self.method.input_type, self._bound(rule), only)

    def _canonical_query_fields(
        self, rule: http_pb2.HttpRule, options: json_pb2.RestRule, codec: Codec
    ) -> QueryFields:
        return QueryFields(
            self.method.input_type,
            self._bound(rule),
            frozenset() if rule.body == "*" else None,
            canonical=True,
            ignore_unknown=codec.ignore_unknown,
            besides=frozenset({POLL_PARAMETER} if options.long_poll else ()),
        )

    def _decoders(self, codec: Codec, body_field: FieldDescriptor | None) -> dict[Profile, Decode]:
        whole = {v.field_path[0] for v in self.template.variables if len(v.field_path) == 1}
        if body_field is not None:
            whole = {f.name for f in self.method.input_type.fields} - {body_field.name}
        # the path wins: what it sets is no member of the body
        without = frozenset(whole)
        return {p: codec.decoder(self.method.input_type, p, without) for p in Profile}

    def _encoders(self, codec: Codec, rule: http_pb2.HttpRule) -> dict[Profile, Encode]:
        member = ""
        if rule.response_body:
            field = self.method.output_type.fields_by_name.get(rule.response_body)
            if field is None:
                raise RouteError(f"the answer field {rule.response_body!r} is unknown or nested")
            member = field.json_name
        return {p: codec.encoder(self.method.output_type, p, member) for p in Profile}

    def query_fields(self) -> list[FieldDescriptor]:
        """The fields that a query may set."""
        return self._query.top()

    def fields_beside_body(self) -> frozenset[str]:
        """The fields that the path sets, by proto name: no members of the body."""
        return frozenset(variable.field_path[0] for variable in self.template.variables)

    def empty_request(self) -> Message:
        """The request that stands in for one that cannot be read."""
        return self._request()

    def read_request(
        self, body: bytes, query: bytes, path: tuple[str, ...], profile: Profile
    ) -> tuple[Any, int | None]:
        """The request, and the milliseconds that its answer may be held for (None: not asked).

        Query beats body, path beats both. RefusedError, if a part cannot be read.
        """
        request = self._request()
        pairs = parse_query(query) if query else []
        held_ms = _poll_ms(pairs) if pairs and self.poll is not None else None
        if self.has_body:
            self._read_body(body, request, profile)
        if pairs:
            query_fields = self._canonical_query if profile is Profile.CANONICAL else self._query
            query_fields.apply(request, pairs)
        self._path.apply(request, path, profile)
        return request, held_ms

    def _read_body(self, body: bytes, request: Message, profile: Profile) -> None:
        try:
            value = jsonscan.parse(body) if body else _NOTHING
        except jsonscan.JsonError as error:
            raise unreadable_body(str(error)) from None
        if value is None and not self._body_member:
            # a member that is null is absent; a body has to be an object
            raise unreadable_body("must be an object")
        if value is _NOTHING:
            value = _EMPTY
        elif self._body_member:
            value = {self._body_member: value}
        if issues := self._decode[profile](value, request):
            if self._body_member:
                prefix = self._body_member
                issues = [
                    issue._replace(field=issue.field.removeprefix(prefix).removeprefix("."))
                    for issue in issues
                ]
            if not issues[0].field:
                raise unreadable_body(issues[0].message)
            raise invalid_body(issues)


def compile_routes(
    services: Iterable[ServiceDescriptor], backend: Backend, codec: Codec
) -> Iterator[Binding]:
    """Every binding of every RPC with an HTTP rule; RouteError names the RPC that is wrong."""
    for service in services:
        for method in service.methods:
            options = method.GetOptions()
            if not options.HasExtension(annotations_pb2.http):
                continue
            rule = options.Extensions[annotations_pb2.http]
            try:
                for one in (rule, *rule.additional_bindings):
                    if one is not rule and one.additional_bindings:
                        raise RouteError("bindings inside bindings")
                    yield Binding(method, one, codec, backend)
            except (RouteError, TemplateError, FieldError, LookupError, ValueError) as error:
                raise RouteError(f"{method.full_name}: {error}") from error


def check_aliases(bindings: Iterable[Binding], rules: HeaderRules) -> None:
    """RouteError, which names the RPC, unless aliases stand for headers that are forwarded."""
    for binding in bindings:
        try:
            rules.check_aliases(binding.aliases)
        except ValueError as error:
            raise RouteError(f"{binding.method.full_name}: {error}") from error


def add_routes(router: Router[Any], bindings: Iterable[Binding]) -> None:
    """Put bindings into a router; RouteError if two have the same shape."""
    for binding in bindings:
        try:
            router.add(binding.http_method, binding.template, binding)
        except TemplateError as error:
            raise RouteError(f"{binding.method.full_name}: {error}") from error


def _pattern(rule: http_pb2.HttpRule) -> tuple[str, str]:
    kind = rule.WhichOneof("pattern")
    if kind is None:
        raise RouteError("a rule without a path")
    if kind == "custom":
        return rule.custom.kind.upper(), rule.custom.path
    return kind.upper(), getattr(rule, kind)


def _deprecation(options: json_pb2.RestRule) -> Headers:
    since_s, successor = options.deprecated_since, options.successor
    if since_s < 0 or (successor and not since_s):
        raise RouteError("a successor needs the time since which it should be called")
    if successor and not _REFERENCE.fullmatch(successor):
        raise RouteError(f"the successor {successor!r} is no path")
    headers = [(b"deprecation", b"@%d" % since_s)] if since_s else []
    if successor:
        headers.append((b"link", f'<{successor}>; rel="successor-version"'.encode("ascii")))
    return headers


def _poll_ms(pairs: list[tuple[str, str]]) -> int | None:
    given = [text for name, text in pairs if name == POLL_PARAMETER]
    if not given:
        return None
    if len(given) > 1:
        raise invalid_parameter(POLL_PARAMETER, "was given more than once")
    text = given[0]
    if not (text.isascii() and text.isdigit()):
        raise invalid_parameter(POLL_PARAMETER, "must be an integer, 0 or more")
    # what is longer is clamped anyway, and converting it could be slow
    return int(text[:15]) if len(text) <= 15 else 10**15
