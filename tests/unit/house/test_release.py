"""Test that the version is the same everywhere, and was not released before."""

from __future__ import annotations

import json
import re
import tomllib

import florin_server

from tests.support.command import ROOT
from tests.support.released_versions import RELEASED

HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
IMAGE = re.compile(r"image: registry\.example/florin:(\S+)")


def project(folder: str) -> dict[str, object]:
    return tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]


def test_every_file_names_the_version_of_the_server():
    server = project(".")
    version = str(server["version"])
    folders = ("client", "gateway", "gateway/options", "sandbox")
    assert {project(folder)["version"] for folder in folders} == {version}
    assert json.loads((ROOT / "client/typescript/package.json").read_text())["version"] == version
    dependencies = server["dependencies"]
    assert isinstance(dependencies, list)
    assert f"florin-client[wallet]=={version}" in dependencies
    assert f"grpc-rest-gateway=={version}" in dependencies
    kubernetes = (ROOT / "deploy/kubernetes/florin.yaml").read_text()
    assert set(IMAGE.findall(kubernetes)) == {version}


def test_installed_version_matches_the_project():
    # `make setup` reinstalls the package after pyproject.toml has changed
    assert florin_server.__version__ == project(".")["version"]


def test_changelog_starts_with_the_current_version_or_unreleased():
    newest, *older = HEADING.findall((ROOT / "CHANGELOG.md").read_text())
    version = project(".")["version"]
    assert newest in {version, "Unreleased"}
    assert version not in older, "this version was released: choose the next one"
    assert not set(RELEASED) - set(older), "a released version has no section"


def test_released_versions_have_a_home_that_the_upgrade_test_starts():
    for version in RELEASED:
        assert (ROOT / "tests/data" / f"home-{version}.tar.xz").is_file()
    assert project(".")["version"] not in RELEASED
