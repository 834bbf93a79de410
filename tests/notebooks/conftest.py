"""Where notebooks are run; each module of tests says where days are simulated (`cache`)."""

from __future__ import annotations

import os

import pytest


@pytest.fixture
def desk(monkeypatch, tmp_path, cache) -> None:
    """An analyst's environment: nothing of Florin in it, and the kernel's files elsewhere."""
    for name in list(os.environ):
        if name.startswith("FLORIN_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    # not the interpreter's debugger, which greets on stderr
    monkeypatch.setenv("PYDEVD_DISABLE_FILE_VALIDATION", "1")
