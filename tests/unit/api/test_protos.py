"""Test that the protos work for a user who has nothing else of Florin."""

from __future__ import annotations

import shutil
from pathlib import Path

import grpc_tools
import pytest
from google.api import annotations_pb2
from google.protobuf import descriptor_pb2
from grpc_tools import protoc

PROTOS = Path(__file__).resolve().parents[3] / "protos"
WELL_KNOWN = Path(grpc_tools.__file__).parent / "_proto"
PACKAGES = ("florin/v1", "gateway_options/v1")
IMPORTED = ("google/api/annotations.proto", "google/api/http.proto")


def test_they_load_alone(tmp_path):
    alone = tmp_path / "protos"
    for name in (*PACKAGES, "google"):
        shutil.copytree(PROTOS / name, alone / name)
    files = [str(file.relative_to(alone)) for name in PACKAGES for file in (alone / name).glob("*")]
    assert len(files) > 10
    out = tmp_path / "image"
    # every compiler has protobuf's own files
    arguments = [
        f"-I{alone}",
        f"-I{WELL_KNOWN}",
        "--include_imports",
        f"--descriptor_set_out={out}",
    ]
    assert protoc.main(["protoc", *arguments, *files]) == 0
    names = {f.name for f in descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file}
    assert {name for name in names if name.startswith("google/api/")} == set(IMPORTED)


@pytest.mark.parametrize("name", IMPORTED)
def test_bundled_protos_match_the_published_files(name):
    published = Path(annotations_pb2.__file__).parents[2] / name
    assert (PROTOS / name).read_text() == published.read_text()
