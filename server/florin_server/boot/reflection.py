"""Reflection: tells gRPC clients of the services of one listener, and of nothing that others serve.

It is answered under two names. Clients ask the newer one first, the library knows the older one
only; their messages are the same on the wire.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import grpc
from google.protobuf.descriptor import FileDescriptor, ServiceDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection, reflection_pb2, reflection_pb2_grpc

_OLDER, _NEWER = "grpc.reflection.v1alpha", "grpc.reflection.v1"
_SERVICE = "ServerReflection"


def reflect(services: Iterable[ServiceDescriptor], methods: Collection[str], server: Any) -> None:
    """Registers reflection; `methods` are the RPCs that the listener answers, as gRPC paths."""
    pool = DescriptorPool()
    names = [f"{_OLDER}.{_SERVICE}", f"{_NEWER}.{_SERVICE}"]
    known: set[str] = set()
    for service in services:
        _add(pool, service.file, methods, known)
        names.append(service.full_name)
    for file in (health_pb2.DESCRIPTOR, reflection_pb2.DESCRIPTOR):
        _add(pool, file, None, known)
        names += [f"{file.package}.{name}" for name in file.services_by_name]
    pool.Add(_newer(reflection_pb2.DESCRIPTOR))
    servicer = reflection.aio.ReflectionServicer(sorted(set(names)), pool)
    reflection_pb2_grpc.add_ServerReflectionServicer_to_server(servicer, server)
    info = grpc.stream_stream_rpc_method_handler(
        servicer.ServerReflectionInfo,
        request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
        response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    server.add_registered_method_handlers(f"{_NEWER}.{_SERVICE}", {"ServerReflectionInfo": info})


def _add(
    pool: DescriptorPool, file: FileDescriptor, methods: Collection[str] | None, known: set[str]
) -> None:
    """Adds a file behind those that it needs, without the RPCs that are answered elsewhere."""
    if file.name in known:
        return
    known.add(file.name)
    for needed in file.dependencies:
        _add(pool, needed, methods, known)
    told = FileDescriptorProto()
    file.CopyToProto(told)
    if methods is not None:
        for service in told.service:
            path = f"/{told.package}.{service.name}/"
            kept = [method for method in service.method if path + method.name in methods]
            del service.method[:]
            service.method.extend(kept)
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
