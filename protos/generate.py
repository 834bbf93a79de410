"""Generates the Python code of the protos into client/gen, and the OpenAPI document of the API.

--check compares instead of writing. Both are committed, so that installing Florin needs no
compiler. The generator is pinned in the development extras: generated code asks for a runtime at
least as new as its generator.
"""

from __future__ import annotations

import filecmp
import os
import pathlib
import shutil
import sys
import tempfile

import grpc_tools
from grpc_tools import protoc

HERE = pathlib.Path(__file__).resolve().parent
# the client's: the server has it from there
GEN = HERE.parent / "client" / "gen"
# what the document takes its examples from
ANSWERS = HERE.parent / "tests" / "wire" / "golden"
PACKAGES = ("florin/v1", "gateway_options/v1")
# the protos need nothing else than what every protoc carries: google/api lies beside them
INCLUDES = (HERE, pathlib.Path(grpc_tools.__file__).parent / "_proto")


def protoc_run(*args: str) -> None:
    """Runs protoc over all protos with the given outputs; exits on an error."""
    files = [str(f) for p in PACKAGES for f in sorted((HERE / p).glob("*.proto"))]
    if protoc.main(["protoc", *(f"-I{i}" for i in INCLUDES), *args, *files]):
        raise SystemExit("protoc failed")


def generate(out: pathlib.Path) -> None:
    """Writes messages, stubs and type stubs below `out`, with the packages' __init__ files."""
    protoc_run(
        f"--python_out={out}",
        f"--grpc_python_out={out}",
        f"--mypy_out=quiet:{out}",
        f"--mypy_grpc_out=quiet:{out}",
    )
    for stub in list(out.rglob("*_pb2_grpc.py")):
        if "Servicer" not in stub.read_text():  # the file has no services
            stub.unlink()
            stub.with_suffix(".pyi").unlink()
    for package in PACKAGES:
        for folder in (out / package, (out / package).parent):
            (folder / "__init__.py").touch()
            (folder / "py.typed").touch()


def image(path: pathlib.Path) -> None:
    """Writes the descriptor set, with comments, that buf lints and compares."""
    protoc_run("--include_imports", "--include_source_info", f"--descriptor_set_out={path}")


def differing(left: pathlib.Path, right: pathlib.Path) -> list[str]:
    """Names the files below either folder that are missing or differ in the other."""
    names = {
        str(f.relative_to(root))
        for root in (left, right)
        for f in root.rglob("*")
        if f.is_file() and "__pycache__" not in f.parts
    }
    _, mismatch, errors = filecmp.cmpfiles(left, right, sorted(names), shallow=False)
    return mismatch + errors


def document() -> tuple[pathlib.Path, str]:
    """Where the OpenAPI document is and what it says; the generated code must be written already.

    It has comments, which generated code has not, and is made by the code that it describes.
    """
    from florin_server.boot.servers.grpc_server import PUBLIC  # noqa: PLC0415
    from florin_server.web.openapi import DOCUMENT  # noqa: PLC0415
    from florin_server.web.openapi.make import make  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as tmp:
        file = pathlib.Path(tmp) / "image.binpb"
        image(file)
        return DOCUMENT, make(PUBLIC, file.read_bytes(), ANSWERS)


def main() -> None:
    """Writes the code, or with `--check` compares it, or with `--image PATH` writes the image."""
    # protoc looks for its plugins on the path, also when the environment is not activated
    os.environ["PATH"] = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    if sys.argv[1:2] == ["--image"]:
        image(pathlib.Path(sys.argv[2]))
        return
    with tempfile.TemporaryDirectory() as tmp:
        out = pathlib.Path(tmp)
        generate(out)
        if sys.argv[1:] == ["--check"]:
            if stale := differing(out, GEN):
                raise SystemExit("generated code is stale, run `make gen`: " + ", ".join(stale))
            path, text = document()
            if not path.exists() or path.read_text() != text:
                raise SystemExit(f"{path.name} is stale, run `make gen`")
            return
        shutil.rmtree(GEN, ignore_errors=True)
        shutil.copytree(out, GEN)
        GEN.chmod(0o755)  # temporary folders are private
    path, text = document()
    path.write_text(text)


if __name__ == "__main__":
    main()
