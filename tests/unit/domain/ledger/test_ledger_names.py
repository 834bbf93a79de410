"""Test that only constructors make names of ledger accounts and keys of journals."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import florin_server
from florin_server.domain.ledger import accounts, journals

from tests.support.syntax import walk
from tools.reference import postings as reference

SOURCE = Path(florin_server.__file__).parent
OWNER = SOURCE / "domain" / "ledger"
KINDS = "|".join({*accounts.LedgerAccountKind, *journals.JournalKind})
NAMES = re.compile(f"^({KINDS})[:#]")
# a module without either has no such name, and to parse all modules takes long
POSSIBLE = re.compile(rf"({KINDS})[:#]|Kind\.")


def texts(path: Path) -> Iterator[str]:
    """Yield every string of a module that may name any; f-strings too, but no docstrings."""
    content = path.read_text()
    nodes = [*walk(ast.parse(content))] if POSSIBLE.search(content) else []
    docstrings = {
        id(node.value)
        for node in nodes
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in nodes:
        if id(node) not in docstrings:
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value
            elif isinstance(node, ast.JoinedStr):
                # the first value can be a kind: f"{Kind.SETTLE}:{payment_id}"
                yield (
                    "".join(
                        expr.value if isinstance(expr, ast.Constant) else "settle"
                        for expr in node.values
                    )
                    if is_kind(node.values[0])
                    else ""
                )


def is_kind(node: ast.expr) -> bool:
    return isinstance(node, ast.FormattedValue) and "Kind." in ast.unparse(node)


def test_account_names_and_journal_keys_are_built_only_by_their_constructors():
    results = {
        (str(path.relative_to(SOURCE)), text)
        for path in SOURCE.rglob("*.py")
        if OWNER not in path.parents
        for text in texts(path)
        if NAMES.match(text)
    }
    assert results == set()


def test_the_search_would_find_them(tmp_path):
    module = tmp_path / "module.py"
    module.write_text("a = f'wallet:{one}'\nb = f'{Kind.SETTLE}:{one}'\nc = 'expense:gas'\n")
    assert len([text for text in texts(module) if NAMES.match(text)]) == 3
    assert [text for path in OWNER.glob("*.py") for text in texts(path) if NAMES.match(text)]


def test_every_kind_is_in_the_reference():
    keys = [key for key, _, _ in reference.list_entries()]
    assert {key.partition(":")[0] for key in keys} == set(journals.JournalKind)
    text = reference.render_postings()
    for kind in accounts.LedgerAccountKind:
        assert f"| `{kind}:" in text
    for key in keys:
        assert f"### `{key}`" in text or key.startswith(
            journals.key_prefix(journals.JournalKind.REVERSE)
        )
