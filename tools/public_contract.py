"""The public contract as one record: RPCs, messages, enums, the OpenAPI document, responses.

The operator's service, and messages that only it uses, are not part of it. `--update` writes the
record; without it, the record is compared with the code, and differences are listed by name.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from florin.v1 import errors_pb2
from florin_server.api.server.methods import MethodSpec, index_methods
from florin_server.app.servers.grpc_server import PUBLIC_SERVICES
from florin_server.web.openapi import DOCUMENT_PATH
from google.protobuf.descriptor import (
    Descriptor,
    EnumDescriptor,
    FieldDescriptor,
    MethodDescriptor,
)
from google.protobuf.descriptor_pb2 import DescriptorProto, EnumDescriptorProto
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

# parts by section and name; a part is the full description of one element
ContractRecord: TypeAlias = Mapping[str, Mapping[str, Any]]

ROOT = Path(__file__).resolve().parents[1]
RECORD_FILE = ROOT / "tests" / "contract" / "api" / "public_contract.json"
GOLDEN_FOLDER = ROOT / "tests" / "wire" / "golden"

_TYPE_NAMES = {
    number: name.removeprefix("TYPE_").lower()
    for name, number in vars(FieldDescriptor).items()
    if name.startswith("TYPE_")
}


def build_record() -> ContractRecord:
    """Return the contract of the current code."""
    rpcs = dict(_list_rpcs())
    messages, enums = _collect_types(rpcs)
    return {
        "rpcs": {
            name: _describe_rpc(descriptor, method) for name, (descriptor, method) in rpcs.items()
        },
        "messages": dict(
            sorted(part for descriptor in messages for part in _describe_message(descriptor))
        ),
        "enums": dict(
            sorted(part for enum_descriptor in enums for part in _describe_enum(enum_descriptor))
        ),
        "openapi": dict(_digest_document(DOCUMENT_PATH)),
        "answers": {
            file.name: compute_digest(file.read_bytes()) for file in sorted(GOLDEN_FOLDER.iterdir())
        },
    }


def list_differences(before: ContractRecord, after: ContractRecord) -> list[str]:
    """List changed, removed and added parts between two records, one line each."""
    differences = []
    for section in sorted({*before, *after}):
        old, new = before.get(section, {}), after.get(section, {})
        for name in sorted({*old, *new}):
            if name not in new:
                differences.append(f"{section}: {name} is gone")
            elif name not in old:
                differences.append(f"{section}: {name} is new")
            elif old[name] != new[name]:
                differences.append(f"{section}: {name} was {old[name]}, is {new[name]}")
    return differences


def format_record(contract: ContractRecord) -> str:
    """Return the text of the record: each part on its own line."""
    sections = []
    for section, parts in contract.items():
        lines = [f"  {_format_json(name)}: {_format_json(part)}" for name, part in parts.items()]
        sections.append(f" {_format_json(section)}: {{\n" + ",\n".join(lines) + "\n }")
    return "{\n" + ",\n".join(sections) + "\n}\n"


def compute_digest(content: bytes) -> str:
    """Return the digest that replaces a long text in the record."""
    return hashlib.sha256(content).hexdigest()[:32]


def _list_rpcs() -> Iterator[tuple[str, tuple[MethodDescriptor, MethodSpec]]]:
    methods = index_methods(PUBLIC_SERVICES)
    for service in PUBLIC_SERVICES:
        for descriptor in service.methods:
            method = methods[f"/{service.full_name}/{descriptor.name}"]
            yield method.name, (descriptor, method)


def _describe_rpc(descriptor: MethodDescriptor, method: MethodSpec) -> Mapping[str, Any]:
    options = _get_options(descriptor)
    access = options.pop("[florin.v1.access]")
    request, response = descriptor.input_type.full_name, descriptor.output_type.full_name
    return {
        "asks": f"stream {request}" if descriptor.client_streaming else request,
        "tells": f"stream {response}" if descriptor.server_streaming else response,
        "access": {
            name: access[name]
            for name in ("family", "scope", "active_merchant", "idempotency")
            if name in access
        },
        # behavior that follows from the access rule, by any of its members
        "behaves": [word for word, has_trait in _list_traits(method) if has_trait],
        **options,
    }


def _list_traits(method: MethodSpec) -> list[tuple[str, bool]]:
    return [
        ("mutates", method.is_mutation),
        ("guarded", method.is_key_guarded),
        ("relays", method.is_relayed),
    ]


def _collect_types(
    rpcs: Mapping[str, tuple[MethodDescriptor, MethodSpec]],
) -> tuple[list[Descriptor], list[EnumDescriptor]]:
    """Return every message and enum of Florin that a request or a response can contain."""
    # error codes appear by name, in texts
    enums = [errors_pb2.ErrorCode.DESCRIPTOR]
    messages: list[Descriptor] = []
    waiting = [
        descriptor for rpc, _ in rpcs.values() for descriptor in (rpc.input_type, rpc.output_type)
    ]
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


def _describe_message(message: Descriptor) -> Iterator[tuple[str, Any]]:
    message.CopyToProto(descriptor_proto := DescriptorProto())
    yield message.full_name, _describe_options(message, descriptor_proto)
    for field in message.fields:
        yield f"{message.full_name}.{field.name}", _describe_field(field)


def _describe_field(field: FieldDescriptor) -> Mapping[str, Any]:
    of = field.message_type or field.enum_type
    description = {
        "number": field.number,
        "json": field.json_name,
        "type": of.full_name if of else _TYPE_NAMES[field.type],
        **_get_options(field),
    }
    if field.is_repeated:
        description["repeated"] = True
    elif field.has_presence:
        description["presence"] = True
    if field.containing_oneof is not None:
        description["oneof"] = field.containing_oneof.name
    return description


def _describe_enum(enum: EnumDescriptor) -> Iterator[tuple[str, Any]]:
    enum.CopyToProto(enum_descriptor_proto := EnumDescriptorProto())
    yield enum.full_name, _describe_options(enum, enum_descriptor_proto)
    for value in enum.values:
        yield f"{enum.full_name}.{value.name}", {"number": value.number, **_get_options(value)}


def _describe_options(
    descriptor: Any, proto: DescriptorProto | EnumDescriptorProto
) -> Mapping[str, Any]:
    """Return the options and reserved names of a message or enum."""
    reserved = [*proto.reserved_name, *(f"{r.start}-{r.end}" for r in proto.reserved_range)]
    return {**_get_options(descriptor), **({"reserved": reserved} if reserved else {})}


def _get_options(descriptor: Any) -> dict[str, Any]:
    options: Message = descriptor.GetOptions()
    return dict(MessageToDict(options, preserving_proto_field_name=True))


def _digest_document(path: Path) -> Iterator[tuple[str, str]]:
    """Yield digests of the document and of its parts, so that a difference can be named."""
    text = path.read_bytes()
    yield "document", compute_digest(text)
    document = json.loads(text)
    for name, part in document.items():
        if name not in {"paths", "components"}:
            yield name, _digest_part(part)
    for where, operations in document["paths"].items():
        for verb, operation in operations.items():
            yield f"{verb} {where}", _digest_part(operation)
    for kind, parts in document["components"].items():
        for name, part in parts.items():
            yield f"{kind}/{name}", _digest_part(part)


def _digest_part(part: Any) -> str:
    return compute_digest(json.dumps(part, sort_keys=True).encode())


def _format_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def main() -> None:
    """Write the record, or compare it."""
    if sys.argv[1:] == ["--update"]:
        RECORD_FILE.write_text(format_record(build_record()))
    elif differences := list_differences(json.loads(RECORD_FILE.read_text()), build_record()):
        raise SystemExit("\n".join(differences))


if __name__ == "__main__":
    main()
