"""The build context of the image, as Docker's own library reads the ignore files."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from tests.deploy.build_context import list_context
from tests.deploy.front import DEPLOY

ROOT = DEPLOY.parent
NEEDED = ("client", "gateway", "notebooks", "protos", "sandbox", "server")
FILES = ("pyproject.toml", "uv.lock", "README.md", "LICENSE", "CHANGELOG.md", "SECURITY.md")
PRIVATE = (
    *(".florin/florin.db", ".florin/secrets.json", ".florin/keys/relayer.json", ".env"),
    *("secrets.json", "keys.json", "receipt.jws", "merchant.log", "florin.toml", "tls.key"),
    *("deploy/compose/secrets.json", "deploy/compose/keystore-password", "deploy/compose/store"),
    *("deploy/compose/postgres-password", "deploy/compose/tls/tls.key"),
    *("build/bench.json", "dist/a.whl", ".venv/bin/python", ".git/config", "unknown/file"),
)
# also inside the folders that the image is built from
ANYWHERE = (
    *(".florin/florin.db", ".florin/secrets.json.new", ".venv/bin/python", ".venv-3.12/a", ".env"),
    *("build/a", "dist/a", "node_modules/a/index.js", "a.egg-info/PKG-INFO", "a.whl"),
    *("__pycache__/a.pyc", ".mypy_cache/a", ".ipynb_checkpoints/a.ipynb", "a.db", "a.db-wal"),
    *("secrets.json", "demo.env", "florin.toml", "florin.toml.bak", "tls.key", "tls.pem", "a.log"),
    *("keystore-password", "postgres-password", "keys.json", "running.json"),
)


def test_podman_and_docker_ignore_the_same_files():
    assert (ROOT / ".containerignore").read_bytes() == (ROOT / ".dockerignore").read_bytes()


def test_secrets_and_state_never_enter_the_build_context(tmp_path):
    paths = {*PRIVATE, *(f"{folder}/deep/{path}" for folder in NEEDED for path in ANYWHERE)}
    for path in (*paths, *FILES, "server/florin_server/app.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("hunter2")
    assert list_context(tmp_path) == {*FILES, "server/florin_server/app.py"}


def test_every_committed_file_of_the_sources_enters_the_build_context(tmp_path):
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout")
    listed = subprocess.run(
        ["git", "ls-files", "-z", *NEEDED, *FILES], cwd=ROOT, capture_output=True, check=True
    )
    paths = {name for name in os.fsdecode(listed.stdout).split("\0") if (ROOT / name).is_file()}
    for path in paths:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    shutil.copytree(ROOT / "tools", tmp_path / "tools")
    assert list_context(tmp_path) == paths
