"""Services made up by tests: protos compiled on the spot, and requests read by their bindings."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import grpc_tools
from google.api import annotations_pb2
from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    field_mask_pb2,
    wrappers_pb2,
)
from google.rpc import status_pb2
from grpc_rest_gateway.backends import LocalBackend
from grpc_rest_gateway.jsoncodec import JsonCodec
from grpc_rest_gateway.profiles import JsonProfile
from grpc_rest_gateway.routes import RouteBinding, compile_routes
from grpc_tools import protoc

HEAD = """syntax = "proto3"; package PACKAGE;
import "gateway_options/v1/json.proto"; import "google/api/annotations.proto";
import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto";
import "google/protobuf/field_mask.proto"; import "google/protobuf/duration.proto";
"""
MESSAGES = """
enum Colour { COLOUR_UNSPECIFIED = 0; COLOUR_RED = 1; COLOUR_DEEP_BLUE = 2; }
message Inner { string text = 1; int64 number = 2; Inner again = 3; repeated string many = 4; }
message Request {
  string id = 1; int32 small = 2; uint64 large = 3; bool yes = 4; double ratio = 5;
  float narrow = 6; bytes blob = 7; Colour colour = 8; repeated int32 list = 9;
  Inner inner = 10; repeated Inner inners = 11; map<string, int32> numbers = 12;
  google.protobuf.Timestamp at = 13; google.protobuf.StringValue wrapped = 14;
  google.protobuf.FieldMask mask = 15; google.protobuf.Duration span = 16;
  oneof choice { string left = 17; string right = 18; }
  string other_name = 19 [json_name = "renamed"];
  string secret = 20 [(gateway_options.v1.field).hidden = true];
  map<int64, Inner> inner_map = 21; map<bool, string> flags = 22;
  optional string extra = 23 [(gateway_options.v1.field).query = true];
}
message Status { string status = 1; bool is_final = 2; repeated string lines = 3; }
message Event { Status state = 1; int64 version = 2; }
message Bare { string text = 1; }
"""
# files that the protos import must be in the pool
LOADED_MODULES = (duration_pb2, field_mask_pb2, wrappers_pb2)
SEQUENCE = itertools.count()


def compile_service(tmp_path, rpcs: str, more: str = ""):
    """Return the descriptor of a service with the given RPCs, each `name: options` or full text."""
    package = f"gatewaytest{next(SEQUENCE)}"
    text = HEAD.replace("PACKAGE", package) + MESSAGES + more + f"service Lab {{ {rpcs} }}"
    (tmp_path / f"{package}.proto").write_text(text)
    roots = [
        tmp_path,
        Path(__file__).resolve().parents[2] / "protos",
        Path(grpc_tools.__file__).parent / "_proto",
        Path(annotations_pb2.__file__).parents[2],
        Path(status_pb2.__file__).parents[2],
    ]
    out = tmp_path / f"{package}.bin"
    arguments = [f"-I{root}" for root in roots]
    assert not protoc.main(
        ["protoc", *arguments, f"--descriptor_set_out={out}", f"{package}.proto"]
    ), sys.stderr
    files = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(files.file[0].SerializeToString())
    return pool.FindServiceByName(f"{package}.Lab")


class PermissiveBackend(LocalBackend):
    """A back end that has every method."""

    def get_unary(self, method):
        return method.name

    def get_stream(self, method):
        return method.name


def compile_bindings(tmp_path, rpcs: str, more: str = "") -> list[RouteBinding]:
    return list(
        compile_routes([compile_service(tmp_path, rpcs, more)], PermissiveBackend(), JsonCodec())
    )


def compile_binding(tmp_path, rule: str, answer: str = "Status") -> RouteBinding:
    rpc = f"rpc Do(Request) returns ({answer}) {{ option (google.api.http) = {{ {rule} }}; }}"
    return compile_bindings(tmp_path, rpc)[0]


def read_request(binding: RouteBinding, query: str = "", body: bytes = b"", path=("x", "7")):
    return binding.parse_request(body, query.encode("latin-1"), path, JsonProfile.SPEC)[0]
