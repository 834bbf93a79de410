"""Runs mutmut on a copy of the package, laid out as mutmut wants it, and reads what it found."""

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
# what tests read and import besides the code that is changed
BESIDE = (
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "SECURITY.md", "Makefile", "docs"),
    *("client", "gateway", "notebooks", "protos", "tools", "deploy"),
    *("pyproject.toml", "requirements.lock", "requirements-dev.lock"),
)
# what only people read may be worded in any way
_WORDS = (r"\b_log\.\w+\(", r"\braise \w+\(")
# the third collects garbage after each run, which takes four times what most runs do
_NOT_LOADED = ("cacheprovider", "xdist", "unraisableexception", "schemathesis")
_PLUGINS = (*(f"no:{one}" for one in _NOT_LOADED), "tests.mutation.by_file")
# these look at how the checkout is laid out, which the copy is not
_OF_THE_CHECKOUT = frozenset({"test_layout.py", "test_ledger_names.py", "test_reference.py"})
_SHOW = """
import json, sys
from mutmut.__main__ import find_mutant, get_diff_for_mutant
names = json.load(sys.stdin)
print(json.dumps({one: get_diff_for_mutant(one, path=find_mutant(one).path) for one in names}))
"""
# how a run ends whose tests pytest did not find; mutmut takes it for one that took too long
_UNPICKED = 255
# the same of one that takes too long, as mutmut writes it down
_TOO_LONG = 36
# after which all tests of a group have come to an end on any machine
_ALONE_S = 3600
_NOT_YET = "not checked"
_KILLED = frozenset({"killed", "timeout", "suspicious", "segfault", "caught by type check"})


@dataclass(slots=True)
class Found:
    """What became of the mutants of one module; `survivors` by name, with what each changed."""

    outcomes: Counter[str] = field(default_factory=Counter)
    survivors: dict[str, str] = field(default_factory=dict)

    @property
    def killed(self) -> int:
        return sum(self.outcomes[one] for one in _KILLED)

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
    """What was found, by module; goes on where an earlier run of the same folder was stopped.

    With `anew` nothing of that is used; mutants in `again` are run once more, since tests were
    written for them. `patience` multiplies both numbers of which the time for a mutant is made.
    Those of the survivors that are `open_ones` are run by all tests of the group.

    RuntimeError with what mutmut said if it did not come to an end, e.g. since a test fails
    without any mutant.
    """
    if anew:
        shutil.rmtree(folder, ignore_errors=True)
    if postgres.POSTGRES in group.stores:
        # one for all: a server of its own takes each mutant longer than its tests
        postgres.server()
    _forget(folder, again)
    _lay_out(group, folder, patience)
    command = [_mutmut(), "run", "--max-children", str(jobs)]
    log = folder / "mutmut.log"
    with log.open("w") as said:
        ended = subprocess.run(
            command, cwd=folder, stdout=said, stderr=subprocess.STDOUT, env=_on(group), check=False
        )
    if ended.returncode:
        lines = log.read_text().replace("\r", "\n").splitlines()
        told = [line for line in lines if not line.endswith((" mutants", " stats", " tests"))]
        raise RuntimeError("\n".join(told[-30:]))
    found = found_in(folder)
    lived = open_ones(found)
    if not lived:
        return found
    _run_alone(group, folder, jobs, lived)
    return found_in(folder)


def _forget(folder: Path, names: Collection[str]) -> None:
    for one in _notes(folder):
        _note(one, dict.fromkeys(names))
    memory = folder / "alone.json"
    if memory.exists():
        memory.write_text(json.dumps(sorted(set(json.loads(memory.read_text())) - set(names))))


def _notes(folder: Path) -> Iterator[Path]:
    """What mutmut notes of each module."""
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
    # lists and texts are written alike in JSON and TOML
    chosen = _settings(group, patience)
    settings = [f"{name} = {json.dumps(value)}" for name, value in chosen.items()]
    text = (ROOT / "pyproject.toml").read_text()
    (folder / "pyproject.toml").write_text("\n".join([text, "[tool.mutmut]", *settings, ""]))


def _run_alone(group: Group, folder: Path, jobs: int, lived: Collection[str]) -> None:
    """Runs survivors by all tests of the group, in processes that have them from the beginning.

    What runs while modules are imported mutmut has changed too late; and of what a fixture of many
    tests does it knows the first of them only.
    """
    memory = folder / "alone.json"
    tried = set(json.loads(memory.read_text())) if memory.exists() else set[str]()
    wanted = sorted(set(lived) - tried)
    plugins = [part for one in _PLUGINS for part in ("-p", one)]
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

    if wanted and ends("none", "--collect-only"):
        raise RuntimeError("pytest finds no tests in a process of its own")
    with ThreadPoolExecutor(jobs) as pool:
        codes = dict(zip(wanted, pool.map(ends, wanted), strict=True))
    killed = {name: code for name, code in codes.items() if code}
    for one in _notes(folder):
        _note(one, killed)
    memory.write_text(json.dumps(sorted(tried | codes.keys() - killed.keys())))


def _ends(note: Path) -> dict[str, int | None]:
    """How the runs of a module's mutants ended; None for those that are to come."""
    found: dict[str, int | None] = json.loads(note.read_text())["exit_code_by_key"]
    return found


def _note(note: Path, ends: Mapping[str, int | None]) -> None:
    """Writes down how some of them ended, as far as they are the module's."""
    known = json.loads(note.read_text())
    of_module = known["exit_code_by_key"]
    of_module.update((name, code) for name, code in ends.items() if name in of_module)
    note.write_text(json.dumps(known))


def _settings(group: Group, patience: float) -> Mapping[str, Any]:
    return {
        "source_paths": ["src"],
        "only_mutate": [f"src/{_PACKAGE}/{one}" for one in group.modules],
        "also_copy": [*BESIDE],
        "do_not_mutate_patterns": [*_WORDS],
        "pytest_add_cli_args": [part for one in _PLUGINS for part in ("-p", one)],
        "pytest_add_cli_args_test_selection": _chosen(group),
        # what tests leave behind in their process must not get into the next one
        "process_isolation": "forkserver",
        "use_git_change_detection": False,
        # a mutant that waits for what never comes is not waited for; what mutmut expects of a run
        # does not know of fixtures
        "timeout_multiplier": 3.0 * patience,
        "timeout_constant": 15.0 * patience,
    }


def _chosen(group: Group) -> list[str]:
    return sorted({str(p.relative_to(ROOT)) for one in group.tests for p in _tests(one)})


def _tests(glob: str) -> Iterator[Path]:
    found = sorted(one for one in (ROOT / "tests").glob(glob) if one.name not in _OF_THE_CHECKOUT)
    if not found:
        raise ValueError(f"no test is called {glob}")
    yield from found


def found_in(folder: Path) -> dict[str, Found]:
    """What runs of a folder found so far, by module; nothing of what has not been run."""
    for one in _notes(folder):
        ends: dict[str, set[int | None]] = {}
        for name, code in _ends(one).items():
            ends.setdefault(name.rpartition("__mutmut_")[0], set()).add(code)
        if unpicked := [name for name, codes in ends.items() if codes == {_UNPICKED}]:
            raise RuntimeError(f"pytest finds no test by its id for {', '.join(unpicked)}")
    told = _asked(folder, [_mutmut(), "results", "--all", "true"])
    outcomes = dict(re.findall(r"^\s*(\S+): (.+?)\s*$", told, re.MULTILINE))
    outcomes = {name: outcome for name, outcome in outcomes.items() if outcome != _NOT_YET}
    lived = [name for name, outcome in outcomes.items() if outcome not in _KILLED]
    # what `mutmut show` tells of one of them, without a start of mutmut for each
    diffs = json.loads(_asked(folder, [sys.executable, "-c", _SHOW], json.dumps(lived)))
    found: dict[str, Found] = {}
    for name, outcome in outcomes.items():
        module = name.rpartition(".")[0].removeprefix(f"{_PACKAGE}.")
        one = found.setdefault(module, Found())
        one.outcomes[outcome] += 1
        if name in diffs:
            one.survivors[name] = _change(diffs[name])
    return found


def _change(diff: str) -> str:
    """What a mutant changed: the lines that it brought in, else those that it took out."""
    lines = [one for one in diff.splitlines() if one[:3] not in {"+++", "---"}]
    new = [one[1:].strip() for one in lines if one[:1] == "+"]
    old = [one[1:].strip() for one in lines if one[:1] == "-"]
    return " ".join(new or old)


def _asked(folder: Path, command: Sequence[str], given: str = "", mutant: str = "") -> str:
    ended = subprocess.run(
        command,
        cwd=folder,
        input=given,
        capture_output=True,
        text=True,
        env=_env(folder, mutant) if mutant else _env(),
        check=True,
    )
    return ended.stdout


def _mutmut() -> str:
    return str(Path(sys.executable).with_name("mutmut"))


def _on(group: Group, seen: Mapping[str, str] | None = None) -> dict[str, str]:
    """What runs of tests see, which run on the stores of their group."""
    return {**(seen or _env()), "FLORIN_TEST_STORES": ",".join(group.stores)}


def _env(folder: Path | None = None, mutant: str = "") -> dict[str, str]:
    """What runs see; with a mutant those that do not run below mutmut."""
    # equal seeds for every mutant
    seen = {**os.environ, "PYTHONHASHSEED": "0", "TMPDIR": str(scratch.folder())}
    if folder is not None:
        places = (folder.resolve() / "mutants" / "src", folder.resolve() / "mutants")
        seen |= {"MUTANT_UNDER_TEST": mutant, "PYTHONPATH": os.pathsep.join(map(str, places))}
    return seen
