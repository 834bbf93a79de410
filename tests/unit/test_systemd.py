"""What systemd is told, and that nobody has to listen."""

from __future__ import annotations

import socket

import pytest
from florin_server.boot.processes import systemd


@pytest.mark.parametrize("kind", ["file", "abstract"])
def test_a_state_is_one_datagram(kind, tmp_path, monkeypatch):
    name = str(tmp_path / "notify")
    address, told = (name, name) if kind == "file" else (f"\0{name}", f"@{name}")
    monkeypatch.setenv("NOTIFY_SOCKET", told)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(address)
        listener.setblocking(False)
        systemd.tell(systemd.READY)
        assert listener.recv(100) == b"READY=1"
        systemd.tell(systemd.reloading())
        state, since = listener.recv(100).split(b"\n")
        assert state == b"RELOADING=1"
        assert int(since.removeprefix(b"MONOTONIC_USEC=")) > 0
        systemd.tell(systemd.STOPPING)
        assert listener.recv(100) == b"STOPPING=1"


@pytest.mark.parametrize("place", [None, "", "relative", "/nobody/listens/here"])
def test_nobody_has_to_listen(place, monkeypatch):
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    if place is not None:
        monkeypatch.setenv("NOTIFY_SOCKET", place)
    systemd.tell(systemd.READY)


def test_one_that_listens_too_slowly_holds_nothing_up(tmp_path, monkeypatch):
    name = str(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", name)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(name)
        for _ in range(1000):
            systemd.tell(systemd.READY)
