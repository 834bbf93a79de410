"""Lint the protos and compare them with the last release, without network access.

buf reads a descriptor image, so that it needs neither its registry nor a copy of google's protos.
This script checks the access rules, which buf does not know.
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
    """Run buf and return its exit status."""
    program = pathlib.Path(sys.executable).with_name("buf")
    return subprocess.run([str(program), *args, "--config", str(CONFIG)], check=False).returncode  # noqa: S603


def unsaid(image: bytes) -> list[str]:
    """List the gaps and contradictions in the access rules of an image, one line each."""
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
        yield "has no caller family"
    elif rule.family == access_pb2.CALLER_FAMILY_OPERATOR:
        # one token permits every call, and there are neither merchants nor profiles
        if rule != access_pb2.AccessRule(family=rule.family):
            yield "is the operator's and sets more than the family"
        if method.options.HasExtension(annotations_pb2.http):
            yield "is the operator's and has a route"
    else:
        if not rule.scope:
            yield "has no scope"
        if not rule.outage:
            yield "has no outage rule"


def main() -> None:
    """Lint and compare; with `--release`, store the current protos as the last release."""
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
