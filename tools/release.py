"""Prepare, build and tag a release; `python -m tools.release --help` lists the commands.

`prepare` sets the version in every file that names it, and dates its section of the changelog.
`build` makes the distributions, their checksums and a bill of materials from the committed tree.
`tag` makes the annotated tag, whose message is the section of the changelog.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
# folders of the distributions; each needs those before it
DISTRIBUTIONS: Final = ("gateway/options", "gateway", "client", ".", "sandbox")
# other files with the version of the server: image tags, the chart, the npm package
MANIFESTS: Final = (
    "deploy/kubernetes/florin.yaml",
    "deploy/helm/florin/Chart.yaml",
    "client/typescript/package.json",
    "client/typescript/package-lock.json",
    "client/typescript/src/version.ts",
)
_VERSION: Final = re.compile(r"\d+\.\d+\.\d+")
_SECTION: Final = re.compile(r"^## (?P<version>\d\S*)(?: - (?P<date>\S+))?$", re.MULTILINE)
SBOM: Final = "florin-pay.cdx.json"
CHECKSUMS: Final = "SHA256SUMS"


class ReleaseError(Exception):
    """A release cannot be made; the message says what to change."""


def read_version() -> str:
    """Return the version of the server."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        return str(tomllib.load(file)["project"]["version"])


def replace_version(text: str, old: str, new: str) -> str:
    """Return a file's text with the project's version, pins, image tags and chart changed."""
    package = r'"name": "florin-client",\s+"version": "|VERSION = "'
    own = rf'^version = "|^version: "?|^appVersion: "?|florin:|{package}'
    before = rf'(?m)({own}|(?:florin-|grpc-rest-gateway)[^"=\n]*==)'
    return re.sub(rf"{before}{re.escape(old)}\b", lambda match: match[1] + new, text)


def prepare(version: str, today: date) -> list[str]:
    """Set a version everywhere and date its section of the changelog; return the changed files.

    ReleaseError unless the changelog begins with a section for the version or `Unreleased`.
    """
    if not _VERSION.fullmatch(version):
        raise ReleaseError(f"{version} is not a version such as 1.2.3")
    old = read_version()
    files = [f"{folder}/pyproject.toml".removeprefix("./") for folder in DISTRIBUTIONS]
    changes = {
        name: replace_version((ROOT / name).read_text(), old, version)
        for name in (*files, *MANIFESTS)
    }
    changes["CHANGELOG.md"] = _date_section((ROOT / "CHANGELOG.md").read_text(), version, today)
    changed = [name for name, text in changes.items() if (ROOT / name).read_text() != text]
    for name in changed:
        (ROOT / name).write_text(changes[name])
    return changed


def _date_section(changelog: str, version: str, today: date) -> str:
    head = re.search(r"^## (.+)$", changelog, re.MULTILINE)
    if head is None or head[1].partition(" ")[0] not in {version, "Unreleased"}:
        raise ReleaseError(f"CHANGELOG.md has no newest section for {version}")
    return changelog.replace(head[0], f"## {version} - {today}", 1)


def read_notes(version: str) -> str:
    """Return the changelog's section of a version; ReleaseError without a dated one."""
    text = (ROOT / "CHANGELOG.md").read_text()
    sections = list(_SECTION.finditer(text))
    for number, section in enumerate(sections):
        if section["version"] == version and section["date"]:
            end = sections[number + 1].start() if number + 1 < len(sections) else len(text)
            return text[section.end() : end].strip() + "\n"
    raise ReleaseError(f"CHANGELOG.md has no section of {version} with a date: run prepare")


def build(target: Path, commit: str = "HEAD") -> list[Path]:
    """Build all distributions of a commit into an empty folder; return the files.

    Two builds of a commit are equal to the byte: the times inside are those of the commit, and
    uncommitted files are not included. Beside them are a CycloneDX bill of materials of the locked
    dependencies, and the SHA-256 of each file.
    """
    target.mkdir(parents=True, exist_ok=True)
    if any(target.iterdir()):
        raise ReleaseError(f"{target} is not empty")
    seconds = _run_git("log", "-1", "--format=%ct", commit).strip()
    environment = {**os.environ, "SOURCE_DATE_EPOCH": seconds}
    with tempfile.TemporaryDirectory(prefix="release-") as folder:
        tree = Path(folder)
        archive = _run("git", "archive", commit, cwd=ROOT)
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            tar.extractall(tree, filter="data")
        for distribution in DISTRIBUTIONS:
            _run(
                *(sys.executable, "-m", "hatchling", "build", "-d", str(target.resolve())),
                cwd=tree / distribution,
                environment=environment,
            )
        export = ("uv", "export", "--quiet", "--frozen", "--format", "cyclonedx1.5", "--no-dev")
        extras = [f"--extra={extra}" for extra in ("docs", "export", "nats", "postgres")]
        bom = _run(
            *(sys.executable, "-m", *export, *extras, "--no-editable"),
            cwd=tree,
            environment=environment,
        )
    (target / SBOM).write_text(_normalize_bom(json.loads(bom), int(seconds), commit))
    files = sorted(file for file in target.iterdir() if file.name != ".gitignore")
    sums = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    (target / CHECKSUMS).write_text("".join(sums))
    return [*files, target / CHECKSUMS]


def _normalize_bom(bom: dict[str, Any], seconds: int, commit: str) -> str:
    """Return a bill of materials whose serial number and time depend on the commit alone."""
    digest = hashlib.sha256(_run_git("rev-parse", commit).encode()).hexdigest()
    parts = (digest[:8], digest[8:12], "5" + digest[13:16], "a" + digest[17:20], digest[20:32])
    bom["serialNumber"] = "urn:uuid:" + "-".join(parts)
    bom["metadata"]["timestamp"] = datetime.fromtimestamp(seconds, UTC).isoformat()
    return json.dumps(bom, indent=2, sort_keys=True) + "\n"


def tag(version: str) -> str:
    """Tag the current commit with the version's notes; return the tag.

    ReleaseError if the tree has changes, or if the tag exists.
    """
    if version != read_version():
        raise ReleaseError(f"pyproject.toml names {read_version()}, not {version}: run prepare")
    notes = read_notes(version)
    if _run_git("status", "--porcelain"):
        raise ReleaseError("the tree has changes that are not committed")
    name = f"v{version}"
    if _run_git("tag", "--list", name):
        raise ReleaseError(f"{name} exists: never use a released number for other code")
    _run("git", "tag", "--annotate", "--cleanup=verbatim", "--file=-", name, stdin=notes.encode())
    return name


def _run_git(*arguments: str) -> str:
    return _run("git", *arguments).decode()


def _run(
    *command: str,
    cwd: Path = ROOT,
    environment: dict[str, str] | None = None,
    stdin: bytes = b"",
) -> bytes:
    done = subprocess.run(  # noqa: S603  (commands of this module)
        command, cwd=cwd, env=environment, input=stdin, capture_output=True, check=False
    )
    if done.returncode:
        raise ReleaseError(f"{' '.join(command)}: {done.stderr.decode()[-2000:]}")
    return done.stdout


def main(arguments: Sequence[str] | None = None) -> int | str:
    """Run a command; return 0, or what is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tools.release", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("prepare", help="set a version and date its notes").add_argument("version")
    building = commands.add_parser("build", help="build the committed tree")
    building.add_argument("folder", type=Path, nargs="?", default=ROOT / "dist")
    commands.add_parser("tag", help="tag the commit").add_argument("version")
    commands.add_parser("notes", help="print the notes of a version").add_argument("version")
    chosen = parser.parse_args(arguments)
    try:
        match chosen.command:
            case "prepare":
                lines = prepare(chosen.version, datetime.now(UTC).date())
            case "build":
                lines = [str(file) for file in build(chosen.folder)]
            case "tag":
                lines = [tag(chosen.version)]
            case _:
                lines = [read_notes(chosen.version)]
    except ReleaseError as error:
        return str(error)
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
