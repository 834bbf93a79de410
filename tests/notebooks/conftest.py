"""Fixtures for running notebooks; each test module sets the folder of simulated days (`cache`)."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.support.notebook_kernels import open_kernel_forks


@pytest.fixture(scope="session")
def kernels(tmp_path_factory) -> Iterator[None]:
    with open_kernel_forks(tmp_path_factory.mktemp("kernels")):
        yield


@pytest.fixture
def desk(monkeypatch, tmp_path, cache, kernels) -> None:
    """Set up an analyst's environment: no Florin variables, and the kernel's files elsewhere."""
    for name in list(os.environ):
        if name.startswith("FLORIN_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    # not the interpreter's debugger, which prints to stderr
    monkeypatch.setenv("PYDEVD_DISABLE_FILE_VALIDATION", "1")
