"""Test that no modules import each other in a cycle, not even inside functions."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import grimp
import pytest


def check(*packages: str) -> None:
    """Raise CycleError with the modules if some import each other."""
    graph = grimp.build_graph(*packages, cache_dir=None)
    TopologicalSorter(
        {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    ).prepare()


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
