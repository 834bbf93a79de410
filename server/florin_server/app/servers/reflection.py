"""Reflection: lists to gRPC clients the services of one listener, and nothing of other listeners.

It is answered under two names. Clients ask the newer name first, the library knows only the older
name; their messages are the same on the wire.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Any

import grpc
from google.protobuf.descriptor import FileDescriptor, ServiceDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection, reflection_pb2, reflection_pb2_grpc

_ALPHA_PACKAGE, _STABLE_PACKAGE = "grpc.reflection.v1alpha", "grpc.reflection.v1"
_SERVICE = "ServerReflection"


def register_reflection(services: Iterable[ServiceDescriptor], server: Any) -> None:
    """Register reflection of the services that the listener answers."""
    answered = [
        *services,
        *health_pb2.DESCRIPTOR.services_by_name.values(),
        *reflection_pb2.DESCRIPTOR.services_by_name.values(),
    ]
    names = {service.full_name for service in answered}
    pool = DescriptorPool()
    added_names: set[str] = set()
    for service in answered:
        _add_file(pool, service.file, names, added_names)
    pool.Add(_to_stable(reflection_pb2.DESCRIPTOR))
    service_names = sorted({*names, f"{_STABLE_PACKAGE}.{_SERVICE}"})
    servicer = reflection.aio.ReflectionServicer(service_names, pool)
    reflection_pb2_grpc.add_ServerReflectionServicer_to_server(servicer, server)
    info = grpc.stream_stream_rpc_method_handler(
        servicer.ServerReflectionInfo,
        request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
        response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    server.add_registered_method_handlers(
        f"{_STABLE_PACKAGE}.{_SERVICE}", {"ServerReflectionInfo": info}
    )


def _add_file(
    pool: DescriptorPool, file: FileDescriptor, names: AbstractSet[str], added_names: set[str]
) -> None:
    """Add a file behind those that it needs, without the services that are answered elsewhere."""
    if file.name in added_names:
        return
    added_names.add(file.name)
    for needed in file.dependencies:
        _add_file(pool, needed, names, added_names)
    file_descriptor_proto = FileDescriptorProto()
    file.CopyToProto(file_descriptor_proto)
    ours = [
        service_descriptor_proto
        for service_descriptor_proto in file_descriptor_proto.service
        if f"{file.package}.{service_descriptor_proto.name}" in names
    ]
    del file_descriptor_proto.service[:]
    file_descriptor_proto.service.extend(ours)
    pool.Add(file_descriptor_proto)


def _to_stable(file: FileDescriptor) -> FileDescriptorProto:
    """Return the file under the newer name."""
    file_descriptor_proto = FileDescriptorProto()
    file.CopyToProto(file_descriptor_proto)
    file_descriptor_proto.name = file.name.replace("v1alpha", "v1")
    file_descriptor_proto.package = _STABLE_PACKAGE
    for message in file_descriptor_proto.message_type:
        for field in message.field:
            if field.type_name:
                field.type_name = field.type_name.replace(_ALPHA_PACKAGE, _STABLE_PACKAGE)
    for method in file_descriptor_proto.service[0].method:
        method.input_type = method.input_type.replace(_ALPHA_PACKAGE, _STABLE_PACKAGE)
        method.output_type = method.output_type.replace(_ALPHA_PACKAGE, _STABLE_PACKAGE)
    return file_descriptor_proto
