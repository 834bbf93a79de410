"""Run forge, halmos and slither on the contracts, in a separate folder below `build`.

The compiler is the one that makes the artifacts. forge and the compiler come from npm; halmos and
slither come from PyPI into a separate environment. All versions are locked.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from contracts.proofs.planted_bugs import PLANTED_BUGS
from tests.support import npm, pip
from tests.support.artifacts import TEST_SOURCES

HERE = Path(__file__).parent
CONTRACTS = HERE.parent
HOME = npm.BUILD / "proofs"
# forge's compiled output in a workplace and its cache, without its failed tests
COMPILED = (
    *("out", "cache/solidity-files-cache.json"),
    *("out-product", "cache-product/solidity-files-cache.json"),
)
# findings in code that only tests use are ignored
_PRODUCT = ("PaySettler.sol", "PayForwarder.sol", "Opener.sol")
# the tests with which a bug of each contract is looked for; those of proofs come first
_TESTS = {
    "PaySettler.sol": ("Items.t.sol", "Batches.t.sol", "Invariants.t.sol"),
    "PayForwarder.sol": ("ForwardItems.t.sol", "Forwarder.t.sol"),
}
_IMPORT = re.compile(r'^import .*"(\..*)";$', re.MULTILINE)


@dataclass(frozen=True)
class Tried:
    """One test of forge; `calls` are the calls of an invariant."""

    passed: bool
    calls: int
    reason: str


@dataclass(frozen=True)
class Tools:
    """The location of the programs; commands run in `home`."""

    home: Path
    path: str
    environment: Mapping[str, str] = field(default_factory=dict)

    def run(
        self, *command: str, seconds: float = 900, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, successful or not."""
        env = {**os.environ, "PATH": self.path, "NO_COLOR": "1", **self.environment, **variables}
        return subprocess.run(
            command,
            cwd=self.home,
            env=env,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )


@cache
def tools() -> Tools | str:
    """Return the programs with the current contracts, or why they are unavailable."""
    package = npm.get_foundry_package("forge")
    if not npm.has_package(HERE / "npm", package):
        return f"there is no {package}"
    if (fault := npm.install(HERE / "npm", HOME / "npm")) is not None:
        return fault
    if (fault := _python(HOME / "venv")) is not None:
        return fault
    forge = HOME / "npm" / "node_modules" / package / "bin"
    path = os.pathsep.join((str(forge), str(HOME / "venv" / "bin"), os.environ["PATH"]))
    return Tools(_workplace("work"), path)


def plant_bug(tools: Tools, name: str, *, proofs_only: bool = False) -> Tools:
    """Return tools for a contract with a planted bug and the tests that look for it.

    Without the tests of the other contracts, and with the compiler's faster way to generate code,
    a copy compiles in seconds. `proofs_only` leaves out everything but the proofs.
    """
    bug = PLANTED_BUGS[name]
    home = _workplace("bug")
    tests = [home / "test" / test for test in _TESTS[bug.source]]
    _remove_unused(home, tests[:1] if proofs_only else tests)
    contract = home / "src" / bug.source
    text = contract.read_text()
    if text.count(bug.original) != 1:
        raise ValueError(f"the original text of the bug does not occur: {name}")
    contract.write_text(text.replace(bug.original, bug.replacement))
    return Tools(home, tools.path, {"FOUNDRY_VIA_IR": "false"})


def _remove_unused(home: Path, tests: Sequence[Path]) -> None:
    """Remove the sources that none of some tests imports."""
    used, sources = set(), list(tests)
    while sources:
        source = sources.pop().resolve()
        if source not in used:
            used.add(source)
            sources += [source.parent / path for path in _IMPORT.findall(source.read_text())]
    for folder in ("src", "test", "sandbox"):
        for source in (home / folder).rglob("*.sol"):
            if source.resolve() not in used:
                source.unlink()


def _workplace(name: str) -> Path:
    """Create a folder with the contracts and their tests."""
    work = HOME / f"{name}-{os.getpid()}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    path = HOME / f"compiled-{name}"
    atexit.register(_leave, work, path)
    for text in ("foundry.toml", "proofs/solc", "gas-snapshot"):
        shutil.copy(CONTRACTS / text, work)
    for text in ("src", "test"):
        shutil.copytree(CONTRACTS / text, work / text)
    # test tokens, outside `src`: slither reads that folder alone
    shutil.copytree(TEST_SOURCES, work / "sandbox", ignore=shutil.ignore_patterns("*.json"))
    (work / "node_modules").symlink_to(HOME / "npm" / "node_modules")
    with _guarded("compiled"):
        if path.exists():
            shutil.copytree(path, work, dirs_exist_ok=True)
    return work


def _leave(work: Path, path: Path) -> None:
    """Remove a workplace; keep its compiled output for the next one.

    forge detects by file contents whether it has to compile again.
    """
    with _guarded("compiled"):
        fresh = work.with_name(f"{work.name}-compiled")
        for text in COMPILED:
            if (work / text).exists():
                (fresh / text).parent.mkdir(parents=True, exist_ok=True)
                (work / text).rename(fresh / text)
        if fresh.exists():
            shutil.rmtree(path, ignore_errors=True)
            fresh.rename(path)
    shutil.rmtree(work, ignore_errors=True)


@contextmanager
def _guarded(name: str) -> Iterator[None]:
    """Allow one process at a time to change something below `build`."""
    HOME.mkdir(parents=True, exist_ok=True)
    with (HOME / f"{name}.lock").open("w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        yield


def _python(home: Path) -> str | None:
    """Create an environment from the lock file; return None, or why it failed."""
    lock, done = HERE / "requirements.lock", home / "requirements.lock"
    with _guarded("venv"):
        if done.exists() and done.read_bytes() == lock.read_bytes():
            return None
        if (fault := pip.install_environment(lock, home)) is not None:
            return f"halmos and slither are not available: {fault}"
        shutil.copy(lock, done)
    return None


def forge(tools: Tools, *, long: bool = False) -> Mapping[str, Tried]:
    """Return the results of fuzz tests and invariants by name."""
    profile = {"FOUNDRY_PROFILE": "long"} if long else {}
    chosen = ("--no-match-contract", "Gas")
    done = tools.run("forge", "test", "--json", *chosen, seconds=3600, **profile)
    try:
        report: Mapping[str, Any] = json.loads(done.stdout)
    except json.JSONDecodeError:
        raise RuntimeError(f"forge returned no result: {done.stderr[-2000:]}") from None
    return {
        name.partition("(")[0]: Tried(
            passed=result["status"] == "Success",
            calls=result["kind"].get("Invariant", {}).get("calls", 0),
            reason=result.get("reason") or "",
        )
        for suite in report.values()
        for name, result in suite["test_results"].items()
    }


def gas(tools: Tools, *, keep: bool = False) -> str:
    """Return the differences from the stored gas figures; empty if equal."""
    file = tools.home / "gas-snapshot"
    how = ("--snap",) if keep else ("--check",)
    done = tools.run("forge", "snapshot", "--match-contract", "Gas", *how, str(file), seconds=600)
    if keep and done.returncode == 0:
        shutil.copy(file, CONTRACTS)
    return "" if done.returncode == 0 else f"{done.stdout[-2000:]}{done.stderr[-2000:]}"


def symbolic(tools: Tools) -> Mapping[str, bool]:
    """Return whether each property of a payment is proven for all numbers and addresses."""
    report = tools.home / "symbolic.json"
    done = tools.run(
        *("halmos", "--match-contract", "Items$", "--default-bytes-lengths", "0,65"),
        *("--solver-timeout-assertion", "60000", "--json-output", str(report)),
        seconds=1800,
    )
    if not report.exists():
        raise RuntimeError(f"halmos returned no result: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    test_results = json.loads(report.read_text())["test_results"]
    return {
        item["name"].partition("(")[0]: item["exitcode"] == 0
        for results in test_results.values()
        for item in results
    }


def slither(tools: Tools) -> list[tuple[str, str]]:
    """Return each finding in the contracts without test money: check and place."""
    report = tools.home / "slither.json"
    report.unlink(missing_ok=True)
    # it reads the syntax tree, for which the faster way to generate code is enough
    faster = {"FOUNDRY_PROFILE": "product", "FOUNDRY_VIA_IR": "false"}
    done = tools.run("slither", ".", "--json", str(report), **faster)
    if not report.exists():
        raise RuntimeError(f"slither returned no result: {done.stderr[-2000:]}")
    findings: Sequence[Any] = json.loads(report.read_text())["results"].get("detectors", [])
    return sorted(
        {
            (finding["check"], _place(finding))
            for finding in findings
            if any(name in finding["first_markdown_element"] for name in _PRODUCT)
        }
    )


def _place(finding: Any) -> str:
    """Return the function or contract of a finding, without line numbers, which change."""
    for element in finding["elements"]:
        if element["type"] in {"function", "contract", "variable"}:
            of = element.get("type_specific_fields", {}).get("parent", {}).get("name")
            return f"{of}.{element['name']}" if of else str(element["name"])
    return str(finding["first_markdown_element"].partition("#")[0])
