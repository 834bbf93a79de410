"""What callers rely on, as one record: RPCs, messages, enums, the OpenAPI document, answers.

The operator's service and what only it carries are no part of it. `--update` writes the record;
without it the record is compared with the code, and what differs is told by name.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from florin.v1 import errors_pb2
from florin_server.boot.servers.grpc_server import PUBLIC
from florin_server.rpc.server.methods import Method, methods_of
from florin_server.web.openapi import DOCUMENT
from google.protobuf.descriptor import (
    Descriptor,
    EnumDescriptor,
    FieldDescriptor,
    MethodDescriptor,
)
from google.protobuf.descriptor_pb2 import DescriptorProto, EnumDescriptorProto
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

# parts by section and name; a part is all that is said of one thing
Record: TypeAlias = Mapping[str, Mapping[str, Any]]

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "tests" / "contract" / "gateway" / "public_contract.json"
ANSWERS = ROOT / "tests" / "wire" / "golden"

_TYPES = {
    number: name.removeprefix("TYPE_").lower()
    for name, number in vars(FieldDescriptor).items()
    if name.startswith("TYPE_")
}


def record() -> Record:
    """The contract as the code has it."""
    rpcs = dict(_rpcs())
    messages, enums = _reached(rpcs)
    return {
        "rpcs": {name: _rpc(descriptor, method) for name, (descriptor, method) in rpcs.items()},
        "messages": dict(sorted(part for one in messages for part in _message(one))),
        "enums": dict(sorted(part for one in enums for part in _enum(one))),
        "openapi": dict(_document(DOCUMENT)),
        "answers": {file.name: digest(file.read_bytes()) for file in sorted(ANSWERS.iterdir())},
    }


def differences(before: Record, after: Record) -> list[str]:
    """What changed, went or came between two records, one line each."""
    found = []
    for section in sorted({*before, *after}):
        old, new = before.get(section, {}), after.get(section, {})
        for name in sorted({*old, *new}):
            if name not in new:
                found.append(f"{section}: {name} is gone")
            elif name not in old:
                found.append(f"{section}: {name} is new")
            elif old[name] != new[name]:
                found.append(f"{section}: {name} was {old[name]}, is {new[name]}")
    return found


def text_of(contract: Record) -> str:
    """The record as it is kept: each part on a line of its own."""
    sections = []
    for section, parts in contract.items():
        lines = [f"  {_json(name)}: {_json(part)}" for name, part in parts.items()]
        sections.append(f" {_json(section)}: {{\n" + ",\n".join(lines) + "\n }")
    return "{\n" + ",\n".join(sections) + "\n}\n"


def digest(content: bytes) -> str:
    """What stands for a text that is too long to be repeated."""
    return hashlib.sha256(content).hexdigest()[:32]


def _rpcs() -> Iterator[tuple[str, tuple[MethodDescriptor, Method]]]:
    methods = methods_of(PUBLIC)
    for service in PUBLIC:
        for descriptor in service.methods:
            method = methods[f"/{service.full_name}/{descriptor.name}"]
            yield method.name, (descriptor, method)


def _rpc(descriptor: MethodDescriptor, method: Method) -> Mapping[str, Any]:
    options = _options(descriptor)
    access = options.pop("[florin.v1.access]")
    asked, told = descriptor.input_type.full_name, descriptor.output_type.full_name
    return {
        "asks": f"stream {asked}" if descriptor.client_streaming else asked,
        "tells": f"stream {told}" if descriptor.server_streaming else told,
        "access": {
            name: access[name]
            for name in ("family", "scope", "active_merchant", "idempotency")
            if name in access
        },
        # what follows from the access rule, by whatever rule it follows
        "behaves": [one for one in ("mutates", "guarded", "relays") if getattr(method, one)],
        **options,
    }


def _reached(
    rpcs: Mapping[str, tuple[MethodDescriptor, Method]],
) -> tuple[list[Descriptor], list[EnumDescriptor]]:
    """Every message and enum of ours that a request or an answer can hold."""
    # errors are told by its names, in texts
    enums = [errors_pb2.ErrorCode.DESCRIPTOR]
    messages: list[Descriptor] = []
    waiting = [one for rpc, _ in rpcs.values() for one in (rpc.input_type, rpc.output_type)]
    while waiting:
        message = waiting.pop()
        if message in messages or message.file.package.startswith("google."):
            continue
        messages.append(message)
        for field in message.fields:
            if field.message_type is not None:
                waiting.append(field.message_type)
            elif field.enum_type is not None and field.enum_type not in enums:
                enums.append(field.enum_type)
    return messages, enums


def _message(message: Descriptor) -> Iterator[tuple[str, Any]]:
    message.CopyToProto(told := DescriptorProto())
    yield message.full_name, _whole(message, told)
    for field in message.fields:
        yield f"{message.full_name}.{field.name}", _field(field)


def _field(field: FieldDescriptor) -> Mapping[str, Any]:
    of = field.message_type or field.enum_type
    found = {
        "number": field.number,
        "json": field.json_name,
        "type": of.full_name if of else _TYPES[field.type],
        **_options(field),
    }
    if field.is_repeated:
        found["repeated"] = True
    elif field.has_presence:
        found["presence"] = True
    if field.containing_oneof is not None:
        found["oneof"] = field.containing_oneof.name
    return found


def _enum(enum: EnumDescriptor) -> Iterator[tuple[str, Any]]:
    enum.CopyToProto(told := EnumDescriptorProto())
    yield enum.full_name, _whole(enum, told)
    for value in enum.values:
        yield f"{enum.full_name}.{value.name}", {"number": value.number, **_options(value)}


def _whole(one: Any, told: DescriptorProto | EnumDescriptorProto) -> Mapping[str, Any]:
    """What is said of a message or enum beside its members."""
    reserved = [*told.reserved_name, *(f"{r.start}-{r.end}" for r in told.reserved_range)]
    return {**_options(one), **({"reserved": reserved} if reserved else {})}


def _options(one: Any) -> dict[str, Any]:
    options: Message = one.GetOptions()
    return dict(MessageToDict(options, preserving_proto_field_name=True))


def _document(path: Path) -> Iterator[tuple[str, str]]:
    """Digests of the document and, so that a difference can be named, of its parts."""
    text = path.read_bytes()
    yield "document", digest(text)
    document = json.loads(text)
    for name, part in document.items():
        if name not in {"paths", "components"}:
            yield name, _part(part)
    for where, operations in document["paths"].items():
        for verb, operation in operations.items():
            yield f"{verb} {where}", _part(operation)
    for kind, parts in document["components"].items():
        for name, part in parts.items():
            yield f"{kind}/{name}", _part(part)


def _part(part: Any) -> str:
    return digest(json.dumps(part, sort_keys=True).encode())


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def main() -> None:
    """Writes or compares."""
    if sys.argv[1:] == ["--update"]:
        RECORD.write_text(text_of(record()))
    elif found := differences(json.loads(RECORD.read_text()), record()):
        raise SystemExit("\n".join(found))


if __name__ == "__main__":
    main()
