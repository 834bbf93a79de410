"""Test where tests write: in memory, unless it is too small or allows no programs."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from tests import scratch

USUAL = Path(tempfile.gettempdir())


@pytest.fixture
def machine(monkeypatch):
    """Set up a machine with enough room, which a test can reduce."""
    monkeypatch.delenv("TMPDIR", raising=False)

    def is_so(*, room=scratch.ROOM_BYTES, available=2 * scratch.ROOM_BYTES, flags=0):
        simple_namespace = SimpleNamespace(f_bavail=room // 4096, f_frsize=4096, f_flag=flags)
        monkeypatch.setattr(os, "statvfs", lambda _path: simple_namespace)
        memory = SimpleNamespace(available=available)
        monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)

    is_so()
    return is_so


def test_it_is_in_memory_where_there_is_room(machine, tmp_path):
    assert scratch.folder(tmp_path) == tmp_path


@pytest.mark.parametrize(
    "lacks",
    [
        {"room": scratch.ROOM_BYTES - 4096},
        {"available": 2 * scratch.ROOM_BYTES - 2},
        {"flags": os.ST_NOEXEC},
    ],
    ids=lambda lacks: next(iter(lacks)),
)
def test_usual_folder_is_used_when_memory_is_unsuitable(machine, tmp_path, lacks):
    machine(**lacks)
    assert scratch.folder(tmp_path) == USUAL


def test_a_machine_may_have_no_such_folder(machine, tmp_path):
    assert scratch.folder(tmp_path / "none") == USUAL


def test_chosen_scratch_folder_is_used(machine, monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(USUAL))
    assert scratch.folder(tmp_path) == USUAL
