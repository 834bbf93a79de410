"""Test that the version is the same everywhere, and was not released before."""

from __future__ import annotations

import json
import re
import tomllib
from datetime import date

import florin_server
import pytest

from tests.support.command import ROOT
from tests.support.released_versions import RELEASED
from tools.release import ReleaseError, prepare, replace_version

# the newest gets its date when it is released
HEADING = re.compile(r"^## (\S+)(?: - (\d{4}-\d{2}-\d{2}))?$", re.MULTILINE)
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
    text = (ROOT / "CHANGELOG.md").read_text()
    (newest, _), *older = HEADING.findall(text)
    assert len(older) + 1 == text.count("\n## "), "a heading has another form"
    version = project(".")["version"]
    assert newest in {version, "Unreleased"}
    assert version not in dict(older), "this version was released: choose the next one"
    assert not set(RELEASED) - dict(older).keys(), "a released version has no section"
    assert all(date for _, date in older)


def test_preparing_a_release_changes_versions_and_nothing_else():
    server = (ROOT / "pyproject.toml").read_text()
    version = str(project(".")["version"])
    changed = replace_version(server, version, "98.7.6")
    assert tomllib.loads(changed)["project"]["version"] == "98.7.6"
    assert "florin-client[wallet]==98.7.6" in changed
    assert "grpc-rest-gateway==98.7.6" in changed
    other = [
        (before, after)
        for before, after in zip(server.splitlines(), changed.splitlines(), strict=True)
        if before != after and before.replace(version, "98.7.6") != after
    ]
    assert not other
    for name, count in (("package.json", 1), ("package-lock.json", 2), ("src/version.ts", 1)):
        package = replace_version(
            (ROOT / "client/typescript" / name).read_text(), version, "98.7.6"
        )
        assert package.count('"98.7.6"') == count, name
    # a dependency that happens to have this version keeps it
    assert replace_version(f'"yarl=={version}"', version, "98.7.6") == f'"yarl=={version}"'


@pytest.mark.parametrize("version", ["", "1.2", "v1.2.3", "1.2.3 ", "1.2.3-rc1", "../1.2.3"])
def test_other_texts_are_no_version(version):
    with pytest.raises(ReleaseError, match=r"not a version such as 1\.2\.3"):
        prepare(version, date(2026, 12, 1))


def test_released_versions_have_a_home_that_the_upgrade_test_starts():
    for version in RELEASED:
        assert (ROOT / "tests/data" / f"home-{version}.tar.xz").is_file()
    assert project(".")["version"] not in RELEASED
