"""Manifests of `deploy`, and what Florin makes of their variables and commands."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from florin_server.app.home import StateFolder
from florin_server.settings import Settings

from tests.deploy.front import DEPLOY

PORTS = {Settings.model_fields[name].default for name in ("http_port", "grpc_port")}


def documents(name: str) -> list[Any]:
    return [item for item in yaml.safe_load_all((DEPLOY / name).read_text()) if item]


def chosen(text: dict[str, Any], monkeypatch: pytest.MonkeyPatch, folder: Path) -> Settings:
    """Return the settings that Florin makes of variables; all of them must be settings."""
    fields = {f"FLORIN_{model_field.upper()}" for model_field in Settings.model_fields}
    assert {name.partition("__")[0] for name in text} <= fields
    monkeypatch.chdir(folder)
    for name, value in text.items():
        assert isinstance(value, str), f"{name} is no text: YAML makes another of it"
        monkeypatch.setenv(name, value)
    return Settings()


def run_private(command: str, home: Path) -> None:
    """Run a shell's command; check that the home it creates is private to Florin."""
    env = {"PATH": os.environ["PATH"], "FLORIN_HOME": str(home)}
    subprocess.run(["/bin/sh", "-c", command], env=env, check=True, timeout=10)
    assert (home / "secrets.json").exists()
    assert StateFolder(home).list_exposed() == []
