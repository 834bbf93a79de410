"""A NUL or a C1 character in any text of a caller is refused or harmless, on every way in.

The fields come from the descriptors, the forms from the consoles' own pages, and the paths from the
routes: later additions are tested too.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import aiohttp
import grpc
import pytest
import pytest_asyncio
from florin_server.app.servers.grpc_server import OPERATOR_SERVICES
from florin_server.web.routes import build_document_routes, build_page_routes
from gateway_options.v1 import json_pb2
from google.api import annotations_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor, MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from tests.support.api import grpc_metadata
from tests.support.calls import CallRequest, PublicCall, list_public_calls
from tests.support.console import ConsoleUser
from tests.support.service_harness import PartnerTenant, ServiceHarness, open_service

pytestmark = pytest.mark.asyncio(loop_scope="module")

NUL, C1 = "\0", "\x9b"
Path = tuple[FieldDescriptor, ...]
REFUSALS = {
    grpc.StatusCode.OK,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.ALREADY_EXISTS,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.PERMISSION_DENIED,
}
_LINK = re.compile(r'(?:href|action)="(/console[^"#]*)"')
_PAGES_MAX = 60


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    home = tmp_path_factory.mktemp("unsafe")
    async with open_service(home, console=True, metrics_port=0) as service:
        # simulated ends are claimed, not reached
        service.has_simulated_chain = True
        yield service


@pytest.fixture(autouse=True)
def no_traceback(caplog) -> Iterator[None]:
    with caplog.at_level(logging.WARNING):
        yield
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []


def texts_of(descriptor: Descriptor, above: Path = ()) -> Iterator[Path]:
    """Yield every text field of a message and of those inside it."""
    for field in descriptor.fields:
        if field.type == FieldDescriptor.TYPE_STRING:
            yield (*above, field)
        elif field.message_type is not None and field.message_type not in {
            field_descriptor.message_type for field_descriptor in above
        }:
            yield from texts_of(field.message_type, (*above, field))


def with_text(message: Message, path: Path, text: str) -> Message:
    """Return a copy in which one field holds a text."""
    changed = type(message)()
    changed.CopyFrom(message)
    target: Any = changed
    for field in path[:-1]:
        inner = getattr(target, field.name)
        if field.message_type.GetOptions().map_entry:
            inner.update(put_entry(path, text))
            return changed
        if field.is_repeated:
            inner = inner[0] if len(inner) else inner.add()
        target = inner
    last = path[-1]
    if last.is_repeated:
        del getattr(target, last.name)[:]
        getattr(target, last.name).append(text)
    else:
        setattr(target, last.name, text)
    return changed


def put_entry(path: Path, text: str) -> dict[str, str]:
    """Return an entry of a map whose key or value is a text, as the path says."""
    return {text: "x"} if path[-1].name == "key" else {"k": text}


def sent(path: Path, character: str) -> list[str]:
    """Return the texts to send in a field: JSON holds the character itself or its escape."""
    if path[-1].GetOptions().Extensions[json_pb2.field].json_text == json_pb2.JSON_TEXT_VALUE:
        return [f'"a{character}b"', json.dumps({"fullName": f"a{character}b"})]
    return [character, f"a{character}b"]


async def code_of(
    channel: grpc.aio.Channel, method: MethodDescriptor, message: Message, headers: dict[str, str]
) -> grpc.StatusCode:
    """Return the code of a call; of a stream the first message is enough."""
    name = f"/{method.containing_service.full_name}/{method.name}"
    raw, metadata = message.SerializeToString(), grpc_metadata(headers)
    try:
        if method.server_streaming:
            stream = channel.unary_stream(name)(raw, metadata=metadata, timeout=10)
            await stream.read()
            stream.cancel()
        else:
            await channel.unary_unary(name)(raw, metadata=metadata, timeout=10)
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


def wrong(character: str, code: grpc.StatusCode) -> bool:
    return (
        code is not grpc.StatusCode.INVALID_ARGUMENT if character == NUL else (code not in REFUSALS)
    )


async def test_control_character_in_any_field_of_an_rpc_is_refused_or_harmless(desk):
    tenant, count, faults = await desk.tenant(), 0, []
    for call in list_public_calls():
        if call.verb:
            continue
        message = call.message(await call.good.make(desk, tenant))
        for path in texts_of(call.method.input_type):
            for character in (NUL, C1):
                for text in sent(path, character):
                    changed = with_text(message, path, text)
                    code = await code_of(desk.channel, call.method, changed, tenant.headers)
                    count += 1
                    if wrong(character, code):
                        faults.append((call.name, path[-1].full_name, text, code.name))
    assert faults == []
    assert count > 300


async def test_control_character_in_any_field_of_the_operator_is_refused_or_harmless(desk):
    headers = {"authorization": f"Bearer {desk.service.secrets.operator_token}"}
    count, faults = 0, []
    async with grpc.aio.insecure_channel(desk.service.grpc.operator_target) as channel:
        for method in (
            method_descriptor
            for service in OPERATOR_SERVICES
            for method_descriptor in service.methods
        ):
            empty = GetMessageClass(method.input_type)()
            for path in texts_of(method.input_type):
                for character in (NUL, C1):
                    changed = with_text(empty, path, character)
                    code = await code_of(channel, method, changed, headers)
                    count += 1
                    if wrong(character, code):
                        faults.append((method.full_name, path[-1].full_name, code.name))
    assert faults == []
    assert count > 100


def rest_requests(
    call: PublicCall, request: CallRequest, path: Path, text: str
) -> Iterator[tuple[str, Any]]:
    """Yield path and body of a route in which one field holds a text, if REST has the field."""
    top, place = path[0], call.template
    variables = {**dict(request.path)}
    if f"{{{top.name}}}" in place:
        variables[top.name] = text
    for name, value in variables.items():
        place = place.replace(f"{{{name}}}", quote(value, safe=""))
    if f"{{{top.name}}}" in call.template:
        yield place, request.body
        return
    options = call.method.GetOptions().Extensions[annotations_pb2.http]
    rule = top.GetOptions().Extensions[json_pb2.field]
    if (not options.body or rule.query) and len(path) == 1:
        yield f"{place}?{top.json_name}={quote(text, safe='')}", request.body
    if options.body:
        body = json.loads(json.dumps(request.body or {}))
        target = body
        for field in path[:-1]:
            if field.GetOptions().Extensions[json_pb2.field].flatten:
                continue
            if field.message_type.GetOptions().map_entry:
                target[field.json_name] = put_entry(path, text)
                yield place, body
                return
            inner = target.get(field.json_name)
            if not isinstance(inner, list if field.is_repeated else dict):
                inner = target[field.json_name] = [{}] if field.is_repeated else {}
            target = inner[0] if field.is_repeated else inner
        last = path[-1]
        target[last.json_name] = [text] if last.is_repeated else text
        yield place, body


async def test_control_character_in_any_field_of_a_route_is_refused_or_harmless(desk):
    tenant, count, faults = await desk.tenant(), 0, []
    good: dict[str, CallRequest] = {}
    for call in list_public_calls():
        if not call.verb:
            continue
        if call.name not in good:
            good[call.name] = await call.good.make(desk, tenant)
        request = good[call.name]
        for path in texts_of(call.method.input_type):
            for character in (NUL, C1):
                for place, body in rest_requests(call, request, path, f"a{character}b"):
                    status = await status_of(desk, call.verb, place, tenant.headers, body)
                    count += 1
                    if status >= 500 or (character == NUL and status != 400):
                        faults.append((str(call), path[-1].full_name, character, status))
    assert faults == []
    assert count > 150


async def status_of(
    desk: ServiceHarness, verb: str, path: str, headers: Any = None, body: Any = None
) -> int:
    """Return the status alone: a stream does not end."""
    url = aiohttp.client.URL(desk.rest.base + path, encoded=True)
    kind = {"Content-Type": "application/json"}
    async with desk.session.request(
        verb,
        url,
        data=None if body is None else json.dumps(body),
        headers={**kind, **(headers or {})},
        allow_redirects=False,
    ) as answer:
        return answer.status


async def test_control_character_in_any_path_or_query_of_a_page_is_refused_or_harmless(desk):
    faults, names = [], re.compile(r"\{(\w+)[^}]*\}")
    authenticator = desk.service.grpc.authenticator
    pages = build_page_routes(desk.service.app, {}, authenticator)
    for verb, template in {**pages, **build_document_routes()}:
        for character in ("%00", "%9B", "%C2%9B", "%ED%A0%80"):
            query = "&".join(f"{name}={character}" for name in ("lang", "theme", "prefill", "app"))
            places = [names.sub(f"a{character}", template), f"{names.sub('a', template)}?{query}"]
            for place in places:
                status = await status_of(desk, verb, place)
                if status >= 500:
                    faults.append((verb, place, status))
    assert faults == []


class Forms(HTMLParser):
    """The forms of a page: method, action, and values by name."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.forms: list[tuple[str, str, dict[str, str]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.forms.append((values.get("method", "get"), values.get("action", ""), {}))
        elif tag in {"input", "textarea", "select", "button"} and values.get("name") and self.forms:
            value = values.get("value") or {"number": "1", "email": "a@b.example"}.get(
                values.get("type", ""), "1"
            )
            self.forms[-1][2].setdefault(values["name"], value)


async def send_all(person: ConsoleUser, start: list[str]) -> tuple[int, list[Any]]:
    """Send every form of the pages that are reached, each field in turn; return faults."""
    waiting, seen, done, faults = list(start), set(), set(), []
    while waiting and len(seen) < _PAGES_MAX:
        place = waiting.pop(0)
        shape = re.sub(r"[0-9A-Za-z]{12,}", "*", urlsplit(place).path)
        if shape in seen or "/export" in place or "/logout" in place:
            continue
        seen.add(shape)
        page = (await person.get(place)).text
        waiting += [item.replace("&amp;", "&") for item in _LINK.findall(page)]
        for at, (method, action, values) in enumerate(Forms(page).forms):
            if "logout" in action or "sign-out" in action:
                continue
            for name in values:
                for character in (NUL, C1):
                    key = (re.sub(r"[0-9A-Za-z]{12,}", "*", action), name, character)
                    if key in done:
                        continue
                    done.add(key)
                    forms = Forms((await person.get(place)).text).forms
                    if at >= len(forms):
                        continue
                    filled = {**forms[at][2], name: f"a{character}b"}
                    where = action or urlsplit(place).path
                    if method.lower() == "post":
                        answer = await person.send(where, filled)
                    else:
                        answer = await person.get(f"{where}?{urlencode(filled)}")
                    if answer.status >= 500 or character in answer.text:
                        faults.append((where, name, character, answer.status))
    return len(done), faults


async def settled_tenant(desk: ServiceHarness) -> tuple[PartnerTenant, str]:
    tenant = await desk.tenant()
    order = {"amount": {"unit": "iso4217/USD", "value": "1250"}, "referenceId": "order-1"}
    response = await desk.ask("POST", "/v1/payments", tenant.headers, order)
    await desk.ask("POST", "/v1/webhook-endpoints", tenant.headers, {"url": ""})
    return tenant, response.body["paymentId"]


async def test_control_character_in_any_form_of_the_consoles_is_refused_or_harmless(desk):
    tenant, payment_id = await settled_tenant(desk)
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as bare:
        person = ConsoleUser(bare, desk.rest.base)
        operator = ConsoleUser(bare, desk.service.metrics_url.removesuffix("/metrics"))
        assert (await person.sign_in(tenant.secret)).location == "/console"
        token = desk.service.secrets.operator_token
        assert (await operator.sign_in(token)).location == "/console"
        place = f"/console/merchants/{tenant.merchant.id}/payments/{payment_id}"
        count, faults = await send_all(person, ["/console", place])
        more, remaining = await send_all(operator, ["/console", f"/console/payments/{payment_id}"])
        for who in (ConsoleUser(bare, person.base), ConsoleUser(bare, operator.base)):
            for name in ("secret", "back"):
                for character in (NUL, C1):
                    values = {"secret": "x", "back": "/console", name: f"a{character}"}
                    answer = await who.send("/console/login", values)
                    if answer.status >= 500:
                        remaining.append((who.base, name, character, answer.status))
    assert faults + remaining == []
    assert count > 40
    assert more > 20
