"""Reflection: tells gRPC clients of the services of one listener, and of nothing that others serve.

It is answered under two names. Clients ask the newer one first, the library knows the older one
only; their messages are the same on the wire.
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

_OLDER, _NEWER = "grpc.reflection.v1alpha", "grpc.reflection.v1"
_SERVICE = "ServerReflection"


def reflect(services: Iterable[ServiceDescriptor], server: Any) -> None:
    """Registers reflection of the services that the listener answers."""
    answered = [
        *services,
        *health_pb2.DESCRIPTOR.services_by_name.values(),
        *reflection_pb2.DESCRIPTOR.services_by_name.values(),
    ]
    names = {service.full_name for service in answered}
    pool = DescriptorPool()
    known: set[str] = set()
    for service in answered:
        _add(pool, service.file, names, known)
    pool.Add(_newer(reflection_pb2.DESCRIPTOR))
    told = sorted({*names, f"{_NEWER}.{_SERVICE}"})
    servicer = reflection.aio.ReflectionServicer(told, pool)
    reflection_pb2_grpc.add_ServerReflectionServicer_to_server(servicer, server)
    info = grpc.stream_stream_rpc_method_handler(
        servicer.ServerReflectionInfo,
        request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
        response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    server.add_registered_method_handlers(f"{_NEWER}.{_SERVICE}", {"ServerReflectionInfo": info})


def _add(
    pool: DescriptorPool, file: FileDescriptor, names: AbstractSet[str], known: set[str]
) -> None:
    """Adds a file behind those that it needs, without the services that are answered elsewhere."""
    if file.name in known:
        return
    known.add(file.name)
    for needed in file.dependencies:
        _add(pool, needed, names, known)
    told = FileDescriptorProto()
    file.CopyToProto(told)
    ours = [one for one in told.service if f"{file.package}.{one.name}" in names]
    del told.service[:]
    told.service.extend(ours)
    pool.Add(told)


def _newer(file: FileDescriptor) -> FileDescriptorProto:
    """The same file under the newer name."""
    told = FileDescriptorProto()
    file.CopyToProto(told)
    told.name = file.name.replace("v1alpha", "v1")
    told.package = _NEWER
    for message in told.message_type:
        for field in message.field:
            if field.type_name:
                field.type_name = field.type_name.replace(_OLDER, _NEWER)
    for method in told.service[0].method:
        method.input_type = method.input_type.replace(_OLDER, _NEWER)
        method.output_type = method.output_type.replace(_OLDER, _NEWER)
    return told
