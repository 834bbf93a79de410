"""Lints the protos and compares them with the last release, without any network.

buf reads a descriptor image, so that it needs neither its registry nor a copy of google's protos.
What buf does not know, access rules, is looked at here.
"""

from __future__ import annotations

import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from florin.v1 import access_pb2
from google.api import annotations_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorSet, MethodDescriptorProto

HERE = pathlib.Path(__file__).resolve().parent
CONFIG = HERE / "buf.yaml"
# the image of the last released protos; changed only by a release, with `--release`
RELEASED = HERE / "released.binpb"


def buf(*args: str) -> int:
    """Runs buf and gives its exit status."""
    program = pathlib.Path(sys.executable).with_name("buf")
    return subprocess.run([str(program), *args, "--config", str(CONFIG)], check=False).returncode  # noqa: S603


def unsaid(image: bytes) -> list[str]:
    """What the access rules of an image leave open, or say of the wrong RPC, one line each."""
    return [
        f"{file.package}.{service.name}.{method.name} {fault}"
        for file in FileDescriptorSet.FromString(image).file
        for service in file.service
        for method in service.method
        for fault in _faults(method)
    ]


def _faults(method: MethodDescriptorProto) -> Iterator[str]:
    rule = method.options.Extensions[access_pb2.access]
    if not rule.family:
        yield "does not say who may call it"
    elif rule.family == access_pb2.CALLER_FAMILY_OPERATOR:
        # one token opens all, and there are neither merchants nor profiles
        if rule != access_pb2.AccessRule(family=rule.family):
            yield "is the operator's and says more than that"
        if method.options.HasExtension(annotations_pb2.http):
            yield "is the operator's and has a route"
    else:
        if not rule.scope:
            yield "does not say which scope a key needs"
        if not rule.outage:
            yield "does not say what an outage is told as"


def main() -> None:
    """Lints and compares; with `--release` the protos of today become what is compared with."""
    with tempfile.TemporaryDirectory() as tmp:
        image = pathlib.Path(tmp) / "image.binpb"
        generate = [sys.executable, str(HERE / "generate.py"), "--image"]
        subprocess.run([*generate, str(image)], check=True)  # noqa: S603
        if sys.argv[1:] == ["--release"]:
            RELEASED.write_bytes(image.read_bytes())
            return
        faults = unsaid(image.read_bytes())
        for fault in faults:
            print(fault)  # noqa: T201
        failed = bool(faults) | buf("lint", str(image))
        failed |= buf("breaking", str(image), "--against", str(RELEASED), "--exclude-imports")
    raise SystemExit(failed)


if __name__ == "__main__":
    main()
