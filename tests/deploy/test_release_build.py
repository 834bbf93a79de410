"""A release of the committed tree: built twice, checked, and installed where nothing else is.

The tests that install need a package registry. Without one they are skipped with a reason; in CI
they fail instead.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
from email.parser import HeaderParser
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.deploy.front import DEPLOY
from tools.release import CHECKSUMS, SBOM, build

ROOT = DEPLOY.parent
INSTALL_S = 600
DEMO_S = 120
# what an sdist has beside its package
SDISTS = {
    "florin_client": {"florin_client", "gen", "protos", "hatch_build.py"},
    "florin_pay": {"server", "CHANGELOG.md", "SECURITY.md"},
    "florin_sandbox": {"florin_sandbox", "notebooks", "hatch_build.py"},
    "grpc_rest_gateway": {"grpc_rest_gateway", "examples"},
    "grpc_rest_gateway_options": {"gateway_options", "protos", "hatch_build.py"},
}
EVERYWHERE = {"LICENSE", "PKG-INFO", "README.md", "pyproject.toml", ".gitignore"}
UV = (sys.executable, "-m", "uv")
TRUST = {**os.environ, "UV_SYSTEM_CERTS": "true", "UV_LINK_MODE": "copy"}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def release(tmp_path_factory) -> Path:
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout")
    folder = tmp_path_factory.mktemp("release")
    build(folder)
    return folder


def run(*command: str, cwd: Path, seconds: int = INSTALL_S) -> str:
    done = subprocess.run(
        command, cwd=cwd, env=TRUST, capture_output=True, text=True, timeout=seconds, check=False
    )
    output = done.stdout + done.stderr
    if done.returncode and "error sending request" in output and os.environ.get("CI") != "true":
        pytest.skip(f"no package registry: {output[-300:]}")
    assert done.returncode == 0, output[-3000:]
    return output


def read_metadata(wheel: Path):
    with ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return HeaderParser().parsestr(archive.read(name).decode())


def test_two_builds_of_a_commit_are_equal(release, tmp_path):
    build(tmp_path / "again")
    assert (tmp_path / "again" / CHECKSUMS).read_bytes() == (release / CHECKSUMS).read_bytes()
    run("sha256sum", "--check", "--strict", CHECKSUMS, cwd=release)


def test_source_distributions_hold_their_package_and_build_the_same_wheel(release, tmp_path):
    sdists = sorted(release.glob("*.tar.gz"))
    assert {file.name.partition("-")[0] for file in sdists} == SDISTS.keys()
    for file in sdists:
        with tarfile.open(file) as archive:
            archive.extractall(tmp_path, filter="data")
        folder = tmp_path / file.name.removesuffix(".tar.gz")
        allowed = SDISTS[file.name.partition("-")[0]] | EVERYWHERE
        assert {path.name for path in folder.iterdir()} <= allowed, file.name
        run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", ".", cwd=folder)
        (again,) = folder.glob("*.whl")
        with ZipFile(again) as built, ZipFile(release / again.name) as released:
            assert {item.filename: item.CRC for item in built.infolist()} == {
                item.filename: item.CRC for item in released.infolist()
            }


def test_registries_accept_the_files(release):
    files = [file.name for file in release.iterdir() if file.suffix in {".whl", ".gz"}]
    run(*UV, "tool", "run", "twine@7.0.0", "check", "--strict", *files, cwd=release)


def test_bill_of_materials_lists_each_dependency_with_its_hash(release):
    bom = json.loads((release / SBOM).read_text())
    assert (bom["bomFormat"], bom["specVersion"]) == ("CycloneDX", "1.5")
    components = {component["name"]: component for component in bom["components"]}
    wheels = {canonicalize_name(wheel.name.partition("-")[0]) for wheel in release.glob("*.whl")}
    for wheel in release.glob("*.whl"):
        if wheel.name.startswith("florin_sandbox"):
            continue
        for text in read_metadata(wheel).get_all("Requires-Dist"):
            needed = Requirement(text)
            name = canonicalize_name(needed.name)
            if needed.marker is None and name not in wheels:
                assert needed.specifier.contains(components[name]["version"]), text
                hashes = [each["hashes"] for each in components[name]["externalReferences"]]
                assert hashes, text
    assert not components.keys() & {"py-evm", "pytest"}


def test_installed_wheels_take_a_payment(release, tmp_path):
    """No checkout, no development tools: an empty environment and the five wheels."""
    run(*UV, "venv", "--quiet", "--python", sys.executable, "venv", cwd=tmp_path)
    (wheel,) = release.glob("florin_pay-*.whl")
    version = wheel.name.split("-")[1]
    run(
        *(*UV, "pip", "install", "--quiet", "--python", "venv", "--find-links", str(release)),
        f"florin-pay[sandbox]=={version}",
        cwd=tmp_path,
    )
    program = tmp_path / "venv/bin/florin"
    empty = tmp_path / "empty"
    empty.mkdir()
    assert run(str(program), "--version", cwd=empty) == f"florin {version}\n"
    ports = {"FLORIN_HTTP_PORT": "0", "FLORIN_GRPC_PORT": "0"}
    demo = subprocess.Popen(
        [program, "demo", "--up"],
        cwd=empty,
        env={**TRUST, **ports},
        stdout=subprocess.PIPE,
        text=True,
    )
    watchdog = threading.Timer(DEMO_S, demo.kill)
    watchdog.start()
    try:
        assert demo.stdout is not None
        lines = []
        for line in demo.stdout:
            lines.append(line)
            if "Ctrl-C ends it." in line:
                break
        assert any(line.startswith("succeeded  transaction 0x") for line in lines), lines
        demo.send_signal(signal.SIGINT)
        demo.wait(DEMO_S)
    finally:
        watchdog.cancel()
        demo.kill()
        demo.wait()
        demo.stdout.close()


def test_release_commands_date_and_tag_a_version(tmp_path):
    clone = tmp_path / "clone"
    run("git", "clone", "--quiet", "--no-local", str(ROOT), str(clone), cwd=tmp_path)
    # the tool as it is here, committed or not
    shutil.copy(ROOT / "tools/release.py", clone / "tools/release.py")
    command = (sys.executable, "-m", "tools.release")
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    changelog = clone / "CHANGELOG.md"
    text = changelog.read_text()
    head = text.partition("## ")[0]
    changelog.write_text(f"{head}## Unreleased\n\nFaster.\n\n{text.removeprefix(head)}")
    changed = run(*command, "prepare", "98.7.6", cwd=clone).split()
    assert "sandbox/pyproject.toml" in changed
    assert "## 98.7.6 - 20" in changelog.read_text()
    for name in changed[:-1]:
        assert "98.7.6" in (clone / name).read_text(), name
    with pytest.raises(AssertionError, match="changes that are not committed"):
        run(*command, "tag", "98.7.6", cwd=clone)
    run("git", *identity, "commit", "--quiet", "--all", "-m", "release", cwd=clone)
    run("git", "config", "user.name", "t", cwd=clone)
    run("git", "config", "user.email", "t@example.org", cwd=clone)
    assert run(*command, "tag", "98.7.6", cwd=clone) == "v98.7.6\n"
    assert (
        run("git", "tag", "--list", "--format=%(contents)", "v98.7.6", cwd=clone).strip()
        == "Faster."
    )
    with pytest.raises(AssertionError, match="never use a released number"):
        run(*command, "tag", "98.7.6", cwd=clone)
