"""Names of accounts and keys of journals come from their constructors, and from nowhere else."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import florin_server
from florin_server.domain.ledger import accounts, journals

from tools.reference import postings as reference

SOURCE = Path(florin_server.__file__).parent
OWNER = SOURCE / "domain" / "ledger"
NAMES = re.compile(f"^({'|'.join({*accounts.Kind, *journals.Kind})})[:#]")


def texts(path: Path) -> Iterator[str]:
    """Every text of a module, those with values in them too; no docstrings."""
    tree = ast.parse(path.read_text())
    docstrings = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if id(node) not in docstrings:
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value
            elif isinstance(node, ast.JoinedStr):
                # the first value may be a kind: f"{Kind.SETTLE}:{payment_id}"
                yield (
                    "".join(
                        one.value if isinstance(one, ast.Constant) else "settle"
                        for one in node.values
                    )
                    if is_kind(node.values[0])
                    else ""
                )


def is_kind(node: ast.expr) -> bool:
    return isinstance(node, ast.FormattedValue) and "Kind." in ast.unparse(node)


def test_nobody_else_writes_names_of_accounts_or_keys_of_journals():
    found = {
        (str(path.relative_to(SOURCE)), text)
        for path in SOURCE.rglob("*.py")
        if OWNER not in path.parents
        for text in texts(path)
        if NAMES.match(text)
    }
    assert found == set()


def test_the_search_would_find_them(tmp_path):
    module = tmp_path / "module.py"
    module.write_text("a = f'wallet:{one}'\nb = f'{Kind.SETTLE}:{one}'\nc = 'expense:gas'\n")
    assert len([text for text in texts(module) if NAMES.match(text)]) == 3
    assert [text for path in OWNER.glob("*.py") for text in texts(path) if NAMES.match(text)]


def test_every_kind_is_in_the_reference():
    keys = [key for key, _, _ in reference.entries()]
    assert {key.partition(":")[0] for key in keys} == set(journals.Kind)
    text = reference.document()
    for kind in accounts.Kind:
        assert f"| `{kind}:" in text
    for key in keys:
        assert f"### `{key}`" in text or key.startswith(journals.prefix(journals.Kind.REVERSE))
