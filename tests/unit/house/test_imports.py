"""Test that no modules import each other in a cycle, not even inside functions or for types."""

from __future__ import annotations

import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest
from florin_server.web.assets import FOLDER

# static and dynamic imports, and those of types in comments
SCRIPT_IMPORT = re.compile(r"""\b(?:from|import)\s*\(?\s*["'](\.[^"']+)["']""")


def check(*packages: str) -> None:
    """Raise CycleError with the modules if some import each other."""
    graph = grimp.build_graph(*packages, cache_dir=None)
    TopologicalSorter(
        {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    ).prepare()


def list_script_imports(folder: Path) -> dict[Path, set[Path]]:
    """Return the scripts in the subfolders of a folder, each with those that it imports."""
    return {
        script.resolve(): {
            (script.parent / name).resolve() for name in SCRIPT_IMPORT.findall(script.read_text())
        }
        for script in folder.glob("*/*.js")
    }


def test_there_is_no_circle():
    check("florin_server", "grpc_rest_gateway", "florin_sandbox")


def test_import_cycle_is_detected(tmp_path, monkeypatch):
    (tmp_path / "round").mkdir()
    (tmp_path / "round" / "__init__.py").touch()
    (tmp_path / "round" / "first.py").write_text("from round import second\n")
    (tmp_path / "round" / "second.py").write_text("def late():\n    from round import first\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(CycleError, match=r"round\.first"):
        check("round")


def test_scripts_of_pages_do_not_import_each_other_in_a_cycle():
    graph = list_script_imports(FOLDER)
    checkout = FOLDER / "checkout"
    assert graph[checkout / "wallets.js"] >= {checkout / "page.js", checkout / "evm.js"}
    assert set().union(*graph.values()) <= graph.keys()
    TopologicalSorter(graph).prepare()


@pytest.mark.parametrize(
    "back",
    [
        'import { a } from "./first.js";',
        'import {\n  a,\n} from "./first.js";',
        'import "./first.js";',
        'export * from "./first.js";',
        'const { a } = await import("./first.js");',
        '/** @typedef {import("./first.js").A} A */',
    ],
)
def test_import_cycle_of_scripts_is_detected(tmp_path, back):
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "first.js").write_text("import * as second from './second.js';\n")
    (tmp_path / "page" / "second.js").write_text(f"{back}\n")
    with pytest.raises(CycleError, match=r"first\.js"):
        TopologicalSorter(list_script_imports(tmp_path)).prepare()
