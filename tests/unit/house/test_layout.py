"""Test the repository's promises: sizes, docstrings, and documents that match the code."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
import typer
from florin_sandbox import demo_accounts
from florin_server.cli.main import app
from florin_server.settings import Settings

from tests.support import syntax
from tests.support.documents import DOCUMENTS, GENERATED, ROOT, read_document, read_prose
from tools import noun_index

ALL = "\n".join(read_document(text) for text in DOCUMENTS)
# options of commands other than florin
OF_OTHERS = r"--no-verify|--update|--from-file|--set-file|--set|--values|--install"
LINES_MAX = 500
EXAMPLE_LINES_MAX = 120
# settings, values, the clock and the commands' exit statuses
PUBLIC_VALUES = tuple(
    f"florin_server.{name}"
    for name in ("settings", "domain.", "base.clock.", "cli.exits.", "__version__")
)
GENERATED_CODE = (ROOT / "client/gen", ROOT / "gateway/options/gateway_options")
FUNCTION_LINES_MAX = 70
# including uncommitted files
THERE = ("--cached", "--others", "--exclude-standard")


def git(*command: str) -> list[str]:
    done = subprocess.run(
        ["git", *command], cwd=ROOT, capture_output=True, text=True, check=False, timeout=240
    )
    # `git grep` without a match exits with 1
    assert done.returncode in {0, 1}, done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def modules() -> list[Path]:
    """Return every handwritten Python file."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout")
    paths = [ROOT / name for name in git("ls-files", "*.py")]
    return [
        path
        for path in paths
        if path.exists() and not any(path.is_relative_to(folder) for folder in GENERATED_CODE)
    ]


def leaves(command: typer.core.TyperGroup, path: str) -> Iterator[tuple[str, set[str]]]:
    """Yield every command with its options, including subcommands."""
    for name, found_command in command.commands.items():
        if isinstance(found_command, typer.core.TyperGroup):
            yield from leaves(found_command, f"{path} {name}")
        else:
            options = {
                o
                for parameter in found_command.params
                for o in (*parameter.opts, *parameter.secondary_opts)
            }
            yield f"{path} {name}", options


def project(distribution: str) -> dict[str, Any]:
    """Return the contents of a distribution's pyproject.toml."""
    return tomllib.loads((ROOT / distribution / "pyproject.toml").read_text())


def test_no_module_is_too_long_to_read(modules):
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in modules}
    assert {name: lines for name, lines in lengths.items() if lines > LINES_MAX} == {}


@pytest.mark.long
def test_no_function_is_too_long_to_read(modules):
    lengths = {
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}": node.end_lineno - node.lineno + 1
        for path in modules
        for node in syntax.walk_statements(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert {name: lines for name, lines in lengths.items() if lines > FUNCTION_LINES_MAX} == {}


def test_examples_are_read_at_a_glance(modules):
    lengths = {
        path.name: len(path.read_text().splitlines())
        for path in modules
        if path.is_relative_to(ROOT / "examples")
    }
    assert len(lengths) >= 4
    assert {name: lines for name, lines in lengths.items() if lines > EXAMPLE_LINES_MAX} == {}


def test_every_module_has_a_docstring(modules):
    silent = [
        str(path.relative_to(ROOT))
        for path in modules
        if path.relative_to(ROOT).parts[0] in {"client", "examples", "gateway", "sandbox", "server"}
        if not syntax.get_docstring(path.read_text())
    ]
    assert silent == []


@pytest.mark.parametrize("distribution", [".", "client", "gateway", "gateway/options", "sandbox"])
def test_a_wheel_holds_every_file_of_its_packages(tmp_path, distribution):
    """This includes templates, contracts and documents, which no import would miss."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout")
    here = ROOT / distribution
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=here, capture_output=True, check=True, timeout=600)
    (wheel,) = tmp_path.iterdir()
    held = {name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name}
    packages = project(distribution)["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    files = set()
    for package in packages:
        above = (here / package).parent.relative_to(ROOT)
        listed = git("ls-files", *THERE, str(here / package))
        results = {str(Path(name).relative_to(above)) for name in listed}
        assert results
        files |= results
    if distribution == "sandbox":
        # files that `florin lab` opens
        files |= {f"florin_sandbox/{name}" for name in git("ls-files", *THERE, "notebooks")}
    if distribution == "client":
        protos = git("ls-files", *THERE, "protos/florin")
        assert protos
        files |= {name.removeprefix("protos/") for name in protos}
    assert held == files


def test_distributions_have_the_same_version_and_license():
    folders = ("client", "gateway", "gateway/options", "sandbox")
    server, *parts = (project(item)["project"] for item in (".", *folders))
    assert {part["version"] for part in parts} == {server["version"]}
    client, gateway, options, sandbox = parts
    extras = server["optional-dependencies"]
    assert extras["sandbox"] == [f"florin-sandbox=={sandbox['version']}"]
    assert extras["notebooks"] == [f"florin-sandbox[notebooks]=={sandbox['version']}"]
    assert f"florin-pay=={server['version']}" in sandbox["dependencies"]
    assert f"florin-client[wallet]=={client['version']}" in server["dependencies"]
    assert f"grpc-rest-gateway=={gateway['version']}" in server["dependencies"]
    assert f"grpc-rest-gateway-options=={options['version']}" in gateway["dependencies"]
    for folder in folders:
        assert (ROOT / folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_the_gateway_knows_no_payments():
    """This includes its documents and its options: it is for any service."""
    words = r"florin|\b(?:merchants?|payments?|pay|wallets?|buyers?)\b"
    paths = [ROOT / name for name in git("ls-files", *THERE, "gateway", "protos/gateway_options")]
    assert len(paths) > 40
    results = {
        (path.name, *result)
        for path in paths
        if path.exists()
        if (result := set(re.findall(words, path.read_text().lower())))
    }
    assert results == set()


def test_nothing_is_left_for_later(modules):
    # written so that this file does not match itself
    later = ["-e", "TO" + "DO", "-e", "FIX" + "ME"]
    assert git("grep", "-I", "-l", "-w", *later) == []


def named_in(text: str) -> Iterator[str]:
    """Yield every command that a text names, each of `florin keys create\\|list` separately."""
    for first, seconds in re.findall(
        r"\bflorin ([a-z]+(?:-[a-z]+)*)((?: [a-z]+(?:\\\|[a-z]+)*)?)", text
    ):
        for second in seconds.split("\\|"):
            yield f"florin {first} {second.strip()}".rstrip()


def test_every_document_is_read():
    there = {
        *(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")),
        *(path.name for path in ROOT.glob("*.md")),
        *(str(path.relative_to(ROOT)) for path in ROOT.glob("client/*.md")),
        *(str(path.relative_to(ROOT)) for path in ROOT.glob("client/typescript/*.md")),
    }
    created = {name for name in there if name.startswith(GENERATED)}
    assert sorted(DOCUMENTS) == sorted(there - created - {"CHANGELOG.md"})


def test_the_readme_is_short():
    assert len(read_document("README.md").splitlines()) <= 150


def test_every_command_of_the_documents_exists():
    commands = set(dict(leaves(typer.main.get_command(app), "florin")))
    groups = {name.split()[1] for name in commands if len(name.split()) > 2}
    named = set()
    for name in named_in(ALL):
        # after a command that is no group, the text is prose
        alone = name.split()[1] not in groups
        named.add(" ".join(name.split()[:2]) if alone else name)
    # in both directions: every named command exists, and every command is named
    assert named == commands
    table = re.findall(r"^\| `florin ([\w-]+)", ALL, re.MULTILINE)
    assert sorted(table) == sorted({name.split()[1] for name in commands})


def test_every_option_of_the_documents_exists():
    commands = dict(leaves(typer.main.get_command(app), "florin"))
    existing = {"--version", "--help"}.union(*commands.values())
    for option in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", re.sub(OF_OTHERS, "", ALL)):
        assert option in existing, option
    assert "--up" in commands["florin demo"]
    assert "--upstream" in commands["florin gateway"]


def test_every_target_of_the_documents_exists():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    # at the start of a line of code, or of a code span
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)\b", ALL, re.MULTILINE))
    assert {"demo", "test", "verify"} <= named
    assert named - targets == set()


def test_every_variable_of_the_documents_exists():
    source = Path(demo_accounts.__file__).read_text()
    demo_env = set(re.findall(r'"(FLORIN_[A-Z_]+)"', source))
    settings = {f"FLORIN_{name.upper()}" for name in Settings.model_fields}
    named = set(re.findall(r"\bFLORIN_[A-Z_]*[A-Z]\b", ALL))
    assert "FLORIN_PARTNER_KEY" in named
    # variables of the notebooks and `florin lab`
    notebooks = set(re.findall(r"\bFLORIN_[A-Z_]*[A-Z]\b", (ROOT / "notebooks/lab.py").read_text()))
    tests = {
        "FLORIN_TEST_DSN",
        "FLORIN_TEST_STORE",
        "FLORIN_TEST_STORES",
        "FLORIN_CHAIN_PROFILE",
        "FLORIN_CHAOS_SPEED",
    }
    # variables that stand in for command options
    options = {"FLORIN_RPC_URL", "FLORIN_WALLET_RPC_URL", "FLORIN_WALLET_PASSWORD_FILE"}
    shown = (ROOT / "docs/reference/commands.md").read_text()
    assert {option for option in options if f"${option}" not in shown} == set()
    assert named - demo_env - settings - notebooks - tests - options == set()


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_link_leads_somewhere(document):
    for link in re.findall(r"\]\(([^)\s]+)\)", read_prose(document)):
        if "://" not in link:
            path, _, anchor = link.partition("#")
            place = (ROOT / document).parent.joinpath(path) if path else ROOT / document
            assert place.exists(), link
            assert not anchor or anchor in anchors(place.read_text()), link


def anchors(text: str) -> set[str]:
    """Return the anchors that GitHub makes of a text's headings."""
    heads = re.findall(
        r"^#+ (.+)$",
        re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL),
        re.MULTILINE,
    )
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def test_every_file_that_the_documents_name_is_there():
    """Files are named by their path from the repository's root, or by the end of it."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout")
    listed = git("ls-files", "--cached", "--others", "--exclude-standard")
    paths = [f"/{name}" for name in listed if (ROOT / name).exists()]
    named = re.findall(r"`(\w[\w/.-]*\.(?:py|proto|sol|toml|json))`", ALL)
    assert len(named) > 20
    elsewhere = {
        *("florin.toml", "secrets.json", "merchant.py", "export.json"),
        *("google/rpc/error_details.proto", "2026-10/manifest.json"),
    }
    missing = {
        name
        for name in named
        if name not in elsewhere and not any(path.endswith(f"/{name}") for path in paths)
    }
    assert missing == set()


def read_import_contracts() -> list[dict[str, Any]]:
    """Return the contracts that import-linter checks, in their order."""
    contracts: list[dict[str, Any]] = project(".")["tool"]["importlinter"]["contracts"]
    return contracts


def test_architecture_page_lists_the_layers_in_order():
    layers = read_import_contracts()[0]["layers"]
    result = re.findall(
        r"`(\w+)`", read_document("docs/architecture.md").partition("Imports go")[2]
    )
    places = [
        {
            result.index(name.strip().removeprefix("florin_server."))
            for name in re.split(r"[|:]", layer)
        }
        for layer in layers
    ]
    assert all(max(upper) < min(lower) for upper, lower in pairwise(places))


def test_every_noun_is_held_to_the_order_of_its_parts():
    server = ROOT / "server"
    parts = [
        path
        for part in ("store", "service", "worker")
        for path in [*server.rglob(f"{part}.py"), *server.rglob(f"{part}/__init__.py")]
    ]
    folders = [path.parents[path.name == "__init__.py"] for path in parts]
    nouns = {
        ".".join(folder.relative_to(server).parts)
        for folder in folders
        if folders.count(folder) > 1
    }
    # the commands have groups of these names
    assert nouns - {"florin_server.cli"} == set(read_import_contracts()[1]["containers"])


def test_every_test_is_in_a_folder_of_its_noun():
    server, nouns = ROOT / "server/florin_server", noun_index.list_nouns()
    assert {"payments", "money", "accounts", "evm", "house"} <= set(nouns)
    for kind in ("unit", "contract"):
        folders = noun_index.list_test_folders(kind)
        assert len(folders) > 20
        for folder in folders:
            assert (server / folder).is_dir() or folder.as_posix() in noun_index.OTHERS, folder
            assert 1 <= len(folder.parts) <= 3, folder
    folders = noun_index.list_test_folders("e2e")
    assert len(folders) > 10
    assert {len(folder.parts) for folder in folders} == {1}
    for folder in folders:
        noun_index.get_noun(folder, nouns)


def list_inner_uses(path: Path) -> Iterator[str]:
    """Yield what an end-to-end test uses that no caller, operator or wallet could."""
    for node in syntax.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute):
            by_others = not (isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"})
            if node.attr == "app" or (by_others and re.match("_[^_]", node.attr)):
                yield f"line {node.lineno}: .{node.attr}"
        elif isinstance(node, ast.ImportFrom | ast.Import):
            top = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            for name in (f"{top}{alias.name}" for alias in node.names):
                if name.split(".")[0] == "florin_server" and not name.startswith(PUBLIC_VALUES):
                    yield f"line {node.lineno}: {name}"


def test_end_to_end_tests_use_public_surfaces_only():
    """Values have no behavior of a service; helpers in tests/support may know more."""
    paths = [*(ROOT / "tests/e2e").rglob("*.py")]
    assert len(paths) > 60
    results = {path.name: uses for path in paths if (uses := [*list_inner_uses(path)])}
    assert results == {}


@pytest.mark.parametrize(
    ("line", "is_inner"),
    [
        ("from florin_server.money.ledger.store import ledger", True),
        ("import florin_server.app.service", True),
        ("from florin_server import money", True),
        ("desk.service.app.store", True),
        ("desk._stub.call()", True),
        ("from florin_server.domain.receipts import keys", False),
        ("from florin_server import __version__", False),
        ("self._stub.__name__", False),
    ],
)
def test_inner_use_is_noticed(tmp_path, line, is_inner):
    path = tmp_path / "test_x.py"
    path.write_text(line)
    assert bool([*list_inner_uses(path)]) is is_inner


def test_the_index_of_tests_is_current():
    assert not noun_index.is_stale(), "run `make gen`"


def test_targets_of_make_name_tests_that_exist():
    named = re.findall(
        r"(?<![\w/])((?:tests/)?[\w/]+/(?:test_\w+\.py)|tests/[\w/]+)(?=\s|$)",
        (ROOT / "Makefile").read_text(),
    )
    assert len(named) > 20
    for name in named:
        assert (ROOT / name).exists() or (ROOT / "tests/contract" / name).exists(), name


def test_questions_of_a_newcomer_lead_to_code():
    section = read_document("docs/contributing/nouns.md").partition("## Seven questions of a")[2]
    rows = re.findall(r"^\| (.+?\?) \| (.+) \|$", section, re.MULTILINE)
    assert len(rows) == 7
    for question, answer in rows:
        places = re.findall(r"`([\w/.]+)::(\w+)`", answer)
        assert 1 <= len(places) <= 3, question
        for path, name in places:
            here = path.startswith(("protos/", "tests/"))
            text = (ROOT / ("" if here else "server/florin_server") / path).read_text()
            declared = rf"\b(?:def|class|rpc) {name}\b|^{name}(?::| =)"
            assert re.search(declared, text, re.MULTILINE), (path, name)


def test_every_test_that_the_threats_name_is_there():
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", read_document("docs/threats.md"))
    assert len(named) > 20
    for path, name in named:
        content = (ROOT / path).read_text()
        assert not name or f"def {name}(" in content, (path, name)
