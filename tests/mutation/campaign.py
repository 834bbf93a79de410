"""Run mutmut on a copy of the package, in mutmut's layout, and read its results."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import scratch
from tests.mutation.groups import Group
from tests.support import postgres

ROOT = Path(__file__).parents[2]
_PACKAGE = "florin_server"
# what tests read and import besides the mutated code
BESIDE = (
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "SECURITY.md", "Makefile", "docs"),
    *("client", "contracts", "gateway", "notebooks", "protos", "sandbox", "tools", "deploy"),
    *("pyproject.toml", "uv.lock"),
)
# texts for people can have any wording
_WORDS = (r"\b_log\.\w+\(", r"\braise \w+\(")
# the third runs a garbage collection after each run, which takes four times as long as most runs
_NOT_LOADED = ("cacheprovider", "xdist", "unraisableexception")
_PLUGINS = (*(f"no:{text}" for text in _NOT_LOADED), "tests.mutation.by_file")
# these tests check the checkout's layout, which the copy does not have
_OF_THE_CHECKOUT = frozenset({"test_layout.py", "test_ledger_names.py", "test_reference.py"})
_SHOW = """
import json, sys
from mutmut.__main__ import find_mutant, get_diff_for_mutant
names = json.load(sys.stdin)
print(json.dumps({one: get_diff_for_mutant(one, path=find_mutant(one).path) for one in names}))
"""
# exit code of a run whose tests pytest did not find; mutmut takes it for a timeout
_UNPICKED = 255
# mutmut's exit code of a timeout
_TOO_LONG = 36
# the time in which all tests of a group end on any machine
_ALONE_S = 3600
_NOT_YET = "not checked"
_KILLED = frozenset({"killed", "timeout", "suspicious", "segfault", "caught by type check"})


@dataclass(slots=True)
class Found:
    """The outcomes of one module's mutants; `survivors` by name, with the change of each."""

    outcomes: Counter[str] = field(default_factory=Counter)
    survivors: dict[str, str] = field(default_factory=dict)

    @property
    def killed(self) -> int:
        return sum(self.outcomes[text] for text in _KILLED)

    @property
    def all(self) -> int:
        return self.outcomes.total()


def mutated(
    group: Group,
    folder: Path,
    jobs: int,
    *,
    anew: bool,
    again: Collection[str] = (),
    patience: float = 1,
    open_ones: Callable[[Mapping[str, Found]], Collection[str]] = lambda _: (),
) -> dict[str, Found]:
    """Return the results by module; continue an earlier run of the same folder.

    `anew` discards earlier results. Mutants in `again` run once more, since tests were written for
    them. `patience` multiplies both parts of a mutant's time limit. The survivors in `open_ones`
    run with all tests of the group.

    Raise RuntimeError with mutmut's output if mutmut fails, for example because a test fails
    without any mutant.
    """
    if anew:
        shutil.rmtree(folder, ignore_errors=True)
    if postgres.POSTGRES in group.stores:
        # a shared server: starting one takes longer than a mutant's tests
        postgres.get_server_dsn()
    _forget(folder, again)
    _lay_out(group, folder, patience)
    command = [_mutmut(), "run", "--max-children", str(jobs)]
    log = folder / "mutmut.log"
    with log.open("w") as text_io_wrapper:
        ended = subprocess.run(
            command,
            cwd=folder,
            stdout=text_io_wrapper,
            stderr=subprocess.STDOUT,
            env=_on(group),
            check=False,
        )
    if ended.returncode:
        lines = log.read_text().replace("\r", "\n").splitlines()
        result = [line for line in lines if not line.endswith((" mutants", " stats", " tests"))]
        raise RuntimeError("\n".join(result[-30:]))
    results = found_in(folder)
    lived = open_ones(results)
    if not lived:
        return results
    _run_alone(group, folder, jobs, lived)
    return found_in(folder)


def _forget(folder: Path, names: Collection[str]) -> None:
    for path in _notes(folder):
        _note(path, dict.fromkeys(names))
    memory = folder / "alone.json"
    if memory.exists():
        memory.write_text(json.dumps(sorted(set(json.loads(memory.read_text())) - set(names))))


def _notes(folder: Path) -> Iterator[Path]:
    """Yield mutmut's notes of each module."""
    yield from (folder / "mutants" / "src").rglob("*.meta")


def _lay_out(group: Group, folder: Path, patience: float) -> None:
    ignored = shutil.ignore_patterns("__pycache__")
    (folder / "src").mkdir(parents=True, exist_ok=True)
    for source, target in (
        (ROOT / "server" / _PACKAGE, folder / "src" / _PACKAGE),
        (ROOT / "tests", folder / "tests"),
        *((ROOT / name, folder / name) for name in BESIDE),
    ):
        if source.is_dir():
            shutil.copytree(source, target, ignore=ignored, dirs_exist_ok=True)
        else:
            shutil.copy2(source, target)
    # JSON and TOML write lists and texts alike
    chosen = _settings(group, patience)
    settings = [f"{name} = {json.dumps(value)}" for name, value in chosen.items()]
    text = (ROOT / "pyproject.toml").read_text()
    (folder / "pyproject.toml").write_text("\n".join([text, "[tool.mutmut]", *settings, ""]))


def _run_alone(group: Group, folder: Path, jobs: int, lived: Collection[str]) -> None:
    """Run survivors with all tests of the group, in processes that have the mutant from the start.

    mutmut applies its change too late for code that runs at import. For a fixture of many tests it
    knows only the first test.
    """
    memory = folder / "alone.json"
    tried = set(json.loads(memory.read_text())) if memory.exists() else set[str]()
    expected = sorted(set(lived) - tried)
    plugins = [part for text in _PLUGINS for part in ("-p", text)]
    command = [sys.executable, "-m", "pytest", "-qx", *plugins, *_chosen(group)]

    def ends(name: str, *more: str) -> int:
        try:
            ended = subprocess.run(
                [*command, *more],
                cwd=folder / "mutants",
                capture_output=True,
                env=_on(group, _env(folder, mutant=name)),
                check=False,
                timeout=_ALONE_S,
            )
        except subprocess.TimeoutExpired:
            return _TOO_LONG
        return ended.returncode

    if expected and ends("none", "--collect-only"):
        raise RuntimeError("pytest finds no tests in a process of its own")
    with ThreadPoolExecutor(jobs) as pool:
        codes = dict(zip(expected, pool.map(ends, expected), strict=True))
    killed = {name: code for name, code in codes.items() if code}
    for path in _notes(folder):
        _note(path, killed)
    memory.write_text(json.dumps(sorted(tried | codes.keys() - killed.keys())))


def _ends(note: Path) -> dict[str, int | None]:
    """Return the exit codes of a module's mutants; None if not run yet."""
    exit_code_by_key: dict[str, int | None] = json.loads(note.read_text())["exit_code_by_key"]
    return exit_code_by_key


def _note(note: Path, ends: Mapping[str, int | None]) -> None:
    """Record some exit codes, as far as the mutants belong to the module."""
    existing = json.loads(note.read_text())
    of_module = existing["exit_code_by_key"]
    of_module.update((name, code) for name, code in ends.items() if name in of_module)
    note.write_text(json.dumps(existing))


def _settings(group: Group, patience: float) -> Mapping[str, Any]:
    return {
        "source_paths": ["src"],
        "only_mutate": [f"src/{_PACKAGE}/{module}" for module in group.modules],
        "also_copy": [*BESIDE],
        "do_not_mutate_patterns": [*_WORDS],
        "pytest_add_cli_args": [part for text in _PLUGINS for part in ("-p", text)],
        "pytest_add_cli_args_test_selection": _chosen(group),
        # leftovers of one test process must not reach the next
        "process_isolation": "forkserver",
        "use_git_change_detection": False,
        # a mutant that waits forever is stopped; mutmut's expected time of a run does not include
        # fixtures
        "timeout_multiplier": 3.0 * patience,
        "timeout_constant": 15.0 * patience,
    }


def _chosen(group: Group) -> list[str]:
    return sorted({str(p.relative_to(ROOT)) for test in group.tests for p in _tests(test)})


def _tests(glob: str) -> Iterator[Path]:
    paths = sorted(
        path for path in (ROOT / "tests").glob(glob) if path.name not in _OF_THE_CHECKOUT
    )
    if not paths:
        raise ValueError(f"no test is called {glob}")
    yield from paths


def found_in(folder: Path) -> dict[str, Found]:
    """Return a folder's results so far, by module, without mutants not run yet."""
    for path in _notes(folder):
        ends: dict[str, set[int | None]] = {}
        for name, code in _ends(path).items():
            ends.setdefault(name.rpartition("__mutmut_")[0], set()).add(code)
        if unpicked := [name for name, codes in ends.items() if codes == {_UNPICKED}]:
            raise RuntimeError(f"pytest finds no test by its id for {', '.join(unpicked)}")
    output = _asked(folder, [_mutmut(), "results", "--all", "true"])
    outcomes = dict(re.findall(r"^\s*(\S+): (.+?)\s*$", output, re.MULTILINE))
    outcomes = {name: outcome for name, outcome in outcomes.items() if outcome != _NOT_YET}
    lived = [name for name, outcome in outcomes.items() if outcome not in _KILLED]
    # the output of `mutmut show` for all survivors, without starting mutmut for each
    diffs = json.loads(_asked(folder, [sys.executable, "-c", _SHOW], json.dumps(lived)))
    results: dict[str, Found] = {}
    for name, outcome in outcomes.items():
        module = name.rpartition(".")[0].removeprefix(f"{_PACKAGE}.")
        path = results.setdefault(module, Found())
        path.outcomes[outcome] += 1
        if name in diffs:
            path.survivors[name] = _change(diffs[name])
    return results


def _change(diff: str) -> str:
    """Return a mutant's change: the added lines, or else the removed lines."""
    lines = [text for text in diff.splitlines() if text[:3] not in {"+++", "---"}]
    new = [line[1:].strip() for line in lines if line[:1] == "+"]
    old = [line[1:].strip() for line in lines if line[:1] == "-"]
    return " ".join(new or old)


def _asked(folder: Path, command: Sequence[str], value: str = "", mutant: str = "") -> str:
    ended = subprocess.run(
        command,
        cwd=folder,
        input=value,
        capture_output=True,
        text=True,
        env=_env(folder, mutant) if mutant else _env(),
        check=True,
    )
    return ended.stdout


def _mutmut() -> str:
    return str(Path(sys.executable).with_name("mutmut"))


def _on(group: Group, seen: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of test runs on the stores of their group."""
    return {**(seen or _env()), "FLORIN_TEST_STORES": ",".join(group.stores)}


def _env(folder: Path | None = None, mutant: str = "") -> dict[str, str]:
    """Return the environment of runs; `mutant` is for runs outside of mutmut."""
    # equal seeds for every mutant
    seen = {**os.environ, "PYTHONHASHSEED": "0", "TMPDIR": str(scratch.folder())}
    if folder is not None:
        places = (folder.resolve() / "mutants" / "src", folder.resolve() / "mutants")
        seen |= {"MUTANT_UNDER_TEST": mutant, "PYTHONPATH": os.pathsep.join(map(str, places))}
    return seen
