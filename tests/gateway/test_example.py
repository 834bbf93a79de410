"""Test the example: the README shows it, and it serves its calls over HTTP."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc_tools
import pytest
from google.api import annotations_pb2
from grpc_tools import protoc

GATEWAY = Path(__file__).resolve().parents[2] / "gateway"
EXAMPLES = GATEWAY / "examples"
README = (GATEWAY / "README.md").read_text()
BOOK = {"id": "dune", "title": "Dune", "pages": 412}


@pytest.fixture(scope="module")
def url(tmp_path_factory) -> Iterator[str]:
    """Generate the code, start the example on a free port, and return its address."""
    folder = tmp_path_factory.mktemp("books")
    includes = (
        EXAMPLES,
        Path(annotations_pb2.__file__).parents[2],
        Path(grpc_tools.__file__).parent / "_proto",
    )
    outputs = (f"--python_out={folder}", f"--grpc_python_out={folder}")
    assert not protoc.main(["protoc", *(f"-I{i}" for i in includes), *outputs, "books.proto"])
    program = (EXAMPLES / "books.py").read_text()
    assert program.count("port=8080") == 1
    (folder / "books.py").write_text(program.replace("port=8080", "port=0"))
    path = os.pathsep.join(map(str, (GATEWAY, GATEWAY / "options")))
    process = subprocess.Popen(
        [sys.executable, "books.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        address = re.search(r"REST at (\S+)", process.stdout.readline())
        assert address is not None
        yield address[1]
    finally:
        process.kill()
        process.communicate()


def call(url: str, path: str, body: Any = None) -> tuple[int, str]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_the_readme_shows_the_example():
    for name, kind in (("books.proto", "proto"), ("books.py", "python")):
        assert f"```{kind}\n{(EXAMPLES / name).read_text()}```" in README


def test_the_example_answers_as_the_readme_shows(url):
    assert call(url, "/v1/books", BOOK) == (200, json.dumps(BOOK, separators=(",", ":")))
    assert json.loads(call(url, "/v1/books/dune")[1]) == BOOK
    status, events = call(url, "/v1/books:watch?minPages=100")
    assert (status, events) == (
        200,
        f"retry: 2000\n\nevent: message\ndata: {json.dumps(BOOK, separators=(',', ':'))}\n\n",
    )
    assert events.strip() in README
    assert call(url, "/v1/books:watch?minPages=1000") == (204, "")


@pytest.mark.parametrize(
    ("path", "body", "status", "error"),
    [
        (
            "/v1/books/emma",
            None,
            404,
            {"code": "not_found", "message": "There is no book emma"},
        ),
        (
            "/v1/books",
            {"id": "dune"},
            409,
            {"code": "already_exists", "message": "There is a book dune"},
        ),
        (
            "/v1/books",
            {"id": 5},
            400,
            {
                "code": "params_validation",
                "message": "Validation error: id: must be a string",
                "issues": [{"field": "id", "message": "must be a string"}],
            },
        ),
        (
            "/v1/books:watch?minPages=many",
            None,
            400,
            {
                "code": "invalid_params",
                "message": "minPages must be an integer",
                "issues": [{"field": "minPages", "message": "must be an integer"}],
            },
        ),
        ("/v1/shelves", None, 404, {"code": "invalid_params", "message": "Path not found"}),
    ],
)
def test_errors_of_the_example_say_what_is_wrong(url, path, body, status, error):
    call(url, "/v1/books", BOOK)
    answer, text = call(url, path, body)
    content = json.loads(text)
    assert content.pop("requestId")
    assert (answer, content) == (status, error)


def test_a_request_that_cannot_be_read_does_not_reach_the_service(url):
    assert call(url, "/v1/books", {"id": 5, "title": "None"})[0] == 400
    # the substitute of such a request would be a book without an id, or this is the second
    assert call(url, "/v1/books", {"id": "", "title": "First"})[0] == 200
