"""forge, halmos and slither on the contracts, in a folder of their own below `build`.

The compiler is the one that makes the artifacts. forge and the compiler come from npm, halmos and
slither from PyPI into an environment of their own, all at locked versions.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.solidity.holes import HOLES
from tests.support import npm

HERE = Path(__file__).parent
CONTRACTS = HERE.parents[1] / "server/florin_server/devnet/contracts"
HOME = npm.BUILD / "proofs"
INSTALL_S = 600
# what forge compiled in a workplace, and what it knows of that; not what it tried and failed
COMPILED = (
    *("out", "cache/solidity-files-cache.json"),
    *("out-product", "cache-product/solidity-files-cache.json"),
)
# what slither finds in code that is only there for tests is nobody's business
_PRODUCT = ("PaySettler.sol", "Opener.sol")


@dataclass(frozen=True)
class Tried:
    """One test of forge's; `calls` are those of an invariant."""

    passed: bool
    calls: int
    reason: str


@dataclass(frozen=True)
class Tools:
    """Where the programs are; commands are run in `home`."""

    home: Path
    path: str

    def run(
        self, *command: str, seconds: float = 900, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end, whatever that is."""
        env = {**os.environ, "PATH": self.path, "NO_COLOR": "1", **variables}
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
    """The programs with the contracts as they are now, or why there are none."""
    package = npm.foundry("forge")
    if not npm.has(HERE / "npm", package):
        return f"there is no {package}"
    if (fault := npm.install(HERE / "npm", HOME / "npm")) is not None:
        return fault
    if (fault := _python(HOME / "venv")) is not None:
        return fault
    forge = HOME / "npm" / "node_modules" / package / "bin"
    path = os.pathsep.join((str(forge), str(HOME / "venv" / "bin"), os.environ["PATH"]))
    return Tools(_workplace("work"), path)


def with_hole(found: Tools, name: str, *, proofs_only: bool = False) -> Tools:
    """The same with a hole in the settlement contract; what only proves compiles faster."""
    before, after = HOLES[name]
    home = _workplace("hole")
    if proofs_only:
        shutil.rmtree(home / "src")
        for one in ("Gas.t.sol", "Invariants.t.sol"):
            (home / "test" / one).unlink()
    contract = home / "contracts" / "PaySettler.sol"
    text = contract.read_text()
    if text.count(before) != 1:
        raise ValueError(f"there is no place for the hole: {name}")
    contract.write_text(text.replace(before, after))
    return Tools(home, found.path)


def _workplace(name: str) -> Path:
    """A folder with the contracts and all that is tried on them."""
    work = HOME / f"{name}-{os.getpid()}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    kept = HOME / f"compiled-{name}"
    atexit.register(_leave, work, kept)
    for one in ("foundry.toml", "solc", "gas-snapshot"):
        shutil.copy(HERE / one, work)
    for one in ("src", "test"):
        shutil.copytree(HERE / one, work / one)
    (work / "contracts").mkdir()
    for source in CONTRACTS.glob("*.sol"):
        shutil.copy(source, work / "contracts")
    (work / "node_modules").symlink_to(HOME / "npm" / "node_modules")
    with _guarded("compiled"):
        if kept.exists():
            shutil.copytree(kept, work, dirs_exist_ok=True)
    return work


def _leave(work: Path, kept: Path) -> None:
    """Removes a workplace; what was compiled there is for the next one, where sources are alike.

    forge itself tells by what is in a file whether it has to be compiled.
    """
    with _guarded("compiled"):
        fresh = work.with_name(f"{work.name}-compiled")
        for one in COMPILED:
            if (work / one).exists():
                (fresh / one).parent.mkdir(parents=True, exist_ok=True)
                (work / one).rename(fresh / one)
        if fresh.exists():
            shutil.rmtree(kept, ignore_errors=True)
            fresh.rename(kept)
    shutil.rmtree(work, ignore_errors=True)


@contextmanager
def _guarded(name: str) -> Iterator[None]:
    """Lets one process at a time do something below `build`."""
    HOME.mkdir(parents=True, exist_ok=True)
    with (HOME / f"{name}.lock").open("w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        yield


def _python(home: Path) -> str | None:
    """An environment with what the lock file names; why there is none."""
    lock, done = HERE / "requirements.lock", home / "requirements.lock"
    with _guarded("venv"):
        if done.exists() and done.read_bytes() == lock.read_bytes():
            return None
        pip = [str(home / "bin/python"), "-m", "pip", "install", "--quiet"]
        for command in (
            [sys.executable, "-m", "venv", "--clear", str(home)],
            [*pip, "--disable-pip-version-check", "-r", str(lock)],
        ):
            made = subprocess.run(
                command, capture_output=True, text=True, timeout=INSTALL_S, check=False
            )
            if made.returncode:
                return f"halmos and slither could not be installed: {made.stderr[-500:]}"
        shutil.copy(lock, done)
    return None


def forge(found: Tools, *, long: bool = False) -> Mapping[str, Tried]:
    """What the fuzz tests and invariants did, by name."""
    profile = {"FOUNDRY_PROFILE": "long"} if long else {}
    chosen = ("--no-match-contract", "Gas")
    done = found.run("forge", "test", "--json", *chosen, seconds=3600, **profile)
    try:
        report: Mapping[str, Any] = json.loads(done.stdout)
    except json.JSONDecodeError:
        raise RuntimeError(f"forge told nothing: {done.stderr[-2000:]}") from None
    return {
        name.partition("(")[0]: Tried(
            passed=result["status"] == "Success",
            calls=result["kind"].get("Invariant", {}).get("calls", 0),
            reason=result.get("reason") or "",
        )
        for suite in report.values()
        for name, result in suite["test_results"].items()
    }


def gas(found: Tools, *, keep: bool = False) -> str:
    """How the figures differ from those that are kept; empty if they do not."""
    file = found.home / "gas-snapshot"
    how = ("--snap",) if keep else ("--check",)
    done = found.run("forge", "snapshot", "--match-contract", "Gas", *how, str(file), seconds=600)
    if keep and done.returncode == 0:
        shutil.copy(file, HERE)
    return "" if done.returncode == 0 else f"{done.stdout[-2000:]}{done.stderr[-2000:]}"


def symbolic(found: Tools) -> Mapping[str, bool]:
    """Whether each property of one payment is proven for all numbers and addresses."""
    report = found.home / "symbolic.json"
    done = found.run(
        *("halmos", "--contract", "Items", "--default-bytes-lengths", "0,65"),
        *("--solver-timeout-assertion", "60000", "--json-output", str(report)),
        seconds=1800,
    )
    if not report.exists():
        raise RuntimeError(f"halmos told nothing: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    told = json.loads(report.read_text())["test_results"]
    return {
        one["name"].partition("(")[0]: one["exitcode"] == 0
        for results in told.values()
        for one in results
    }


def slither(found: Tools) -> list[tuple[str, str]]:
    """Each finding in the contracts that hold no test money: which check, and where."""
    report = found.home / "slither.json"
    report.unlink(missing_ok=True)
    done = found.run("slither", ".", "--json", str(report), FOUNDRY_PROFILE="product")
    if not report.exists():
        raise RuntimeError(f"slither told nothing: {done.stderr[-2000:]}")
    findings: Sequence[Any] = json.loads(report.read_text())["results"].get("detectors", [])
    return sorted(
        {
            (one["check"], _place(one))
            for one in findings
            if any(name in one["first_markdown_element"] for name in _PRODUCT)
        }
    )


def _place(finding: Any) -> str:
    """The function or contract that a finding is about, without lines, which change."""
    for element in finding["elements"]:
        if element["type"] in {"function", "contract", "variable"}:
            of = element.get("type_specific_fields", {}).get("parent", {}).get("name")
            return f"{of}.{element['name']}" if of else str(element["name"])
    return str(finding["first_markdown_element"].partition("#")[0])
