"""Generate the Python code of the protos, and the OpenAPI document of the API.

--check compares instead of writing. Both are committed, so that installing Florin needs no
compiler. The generator is pinned in the development extras: generated code needs a runtime at least
as new as its generator.
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
# each package in the distribution that has its generated code
FOLDERS = {
    "florin": HERE.parent / "client" / "gen" / "florin",
    "gateway_options": HERE.parent / "gateway" / "options" / "gateway_options",
}
# the source of the document's examples
ANSWERS = HERE.parent / "tests" / "wire" / "golden"
PACKAGES = ("florin/v1", "gateway_options/v1")
# the protos need only what every protoc includes: google/api is next to them
INCLUDES = (HERE, pathlib.Path(grpc_tools.__file__).parent / "_proto")


def protoc_run(*args: str) -> None:
    """Run protoc over all protos with the given outputs; exit on an error."""
    files = [str(f) for p in PACKAGES for f in sorted((HERE / p).glob("*.proto"))]
    if protoc.main(["protoc", *(f"-I{i}" for i in INCLUDES), *args, *files]):
        raise SystemExit("protoc failed")


def generate(out: pathlib.Path) -> None:
    """Write messages, stubs and type stubs below `out`, with the packages' __init__ files."""
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
    # services import the options in their own protos, and have no checkout of this repository
    for proto in (HERE / "gateway_options" / "v1").glob("*.proto"):
        shutil.copyfile(proto, out / "gateway_options" / "v1" / proto.name)


def image(path: pathlib.Path) -> None:
    """Write the descriptor set, with comments, that buf lints and compares."""
    protoc_run("--include_imports", "--include_source_info", f"--descriptor_set_out={path}")


def differing(left: pathlib.Path, right: pathlib.Path) -> list[str]:
    """List the files below either folder that are missing or different in the other."""
    names = {
        str(f.relative_to(root))
        for root in (left, right)
        for f in root.rglob("*")
        if f.is_file() and "__pycache__" not in f.parts
    }
    _, mismatch, errors = filecmp.cmpfiles(left, right, sorted(names), shallow=False)
    return mismatch + errors


def document() -> tuple[pathlib.Path, str]:
    """Return path and text of the OpenAPI document; the generated code must be written before.

    The document has comments, which generated code lacks, and the code that it describes makes it.
    """
    from florin_server.app.servers.grpc_server import PUBLIC_SERVICES  # noqa: PLC0415
    from florin_server.web.openapi import DOCUMENT_PATH  # noqa: PLC0415
    from florin_server.web.openapi.make import render_document  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as tmp:
        file = pathlib.Path(tmp) / "image.binpb"
        image(file)
        return DOCUMENT_PATH, render_document(PUBLIC_SERVICES, file.read_bytes(), ANSWERS)


def main() -> None:
    """Write the code, or compare it with `--check`, or write the image with `--image PATH`."""
    # protoc looks for its plugins in PATH, even if the environment is not activated
    os.environ["PATH"] = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    if sys.argv[1:2] == ["--image"]:
        image(pathlib.Path(sys.argv[2]))
        return
    with tempfile.TemporaryDirectory() as tmp:
        out = pathlib.Path(tmp)
        generate(out)
        if sys.argv[1:] == ["--check"]:
            stale = [
                f"{name}/{file}"
                for name, folder in FOLDERS.items()
                for file in differing(out / name, folder)
            ]
            if stale:
                raise SystemExit("generated code is stale, run `make gen`: " + ", ".join(stale))
            path, text = document()
            if not path.exists() or path.read_text() != text:
                raise SystemExit(f"{path.name} is stale, run `make gen`")
            return
        for name, folder in FOLDERS.items():
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(out / name, folder)
    path, text = document()
    path.write_text(text)


if __name__ == "__main__":
    main()
