"""Test notifications to systemd, also without a listener."""

from __future__ import annotations

import socket

import pytest
from florin_server.app.processes import systemd


@pytest.mark.parametrize("kind", ["file", "abstract"])
def test_state_is_sent_in_a_single_datagram(kind, tmp_path, monkeypatch):
    name = str(tmp_path / "notify")
    address, output = (name, name) if kind == "file" else (f"\0{name}", f"@{name}")
    monkeypatch.setenv("NOTIFY_SOCKET", output)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(address)
        listener.setblocking(False)
        systemd.notify(systemd.READY_STATE)
        assert listener.recv(100) == b"READY=1"
        systemd.notify(systemd.build_reloading_state())
        state, since = listener.recv(100).split(b"\n")
        assert state == b"RELOADING=1"
        assert int(since.removeprefix(b"MONOTONIC_USEC=")) > 0
        systemd.notify(systemd.STOPPING_STATE)
        assert listener.recv(100) == b"STOPPING=1"


@pytest.mark.parametrize("place", [None, "", "relative", "/no/such/socket"])
def test_notify_works_without_a_listener(place, monkeypatch):
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    if place is not None:
        monkeypatch.setenv("NOTIFY_SOCKET", place)
    systemd.notify(systemd.READY_STATE)


def test_slow_listener_does_not_block_notify(tmp_path, monkeypatch):
    name = str(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", name)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(name)
        for _ in range(1000):
            systemd.notify(systemd.READY_STATE)
