"""Names of accounts and keys of journals come from their constructors, and from nowhere else."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import florin_server
import pytest
from florin_server.domain.ledger import accounts, journals, postings
from florin_server.domain.ledger.postings import Received
from florin_server.domain.payouts.payout import PayoutKind

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


@pytest.mark.parametrize("kind", PayoutKind)
def test_the_kind_of_a_payouts_journal_begins_its_key(kind):
    begins = journals.prefix(journals.payout_kind(kind))
    assert journals.payout(kind, "pout_1") == f"{begins}pout_1"


def test_keys_stay_what_they_were():
    assert journals.settle("pay_1") == "settle:pay_1"
    assert journals.late("pay_1", "0x1:0x2") == "late:pay_1:0x1:0x2"
    assert journals.opening("a:1:w", "a:1/erc20:t") == "opening:wallet:a:1:w:a:1/erc20:t"
    assert journals.reversal(journals.nth(journals.gas("tx_1"), 2)) == "reverse:gas:tx_1#2"
    assert journals.nth("gas:tx_1", 1) == "gas:tx_1"
    assert journals.reversal_kind(journals.Kind.GAS) == "reverse_gas"


def test_an_account_of_no_kind_is_refused():
    assert accounts.kind_of(accounts.FEE) is accounts.Kind.INCOME
    with pytest.raises(ValueError, match="unknown kind of account: purse:w"):
        accounts.kind_of("purse:w")


@pytest.mark.parametrize("fee", [0, 3, 100])
@pytest.mark.parametrize(("to_merchant", "booked", "owed"), [(1, 0, 0), (0, 1, 1), (1, 1, 0)])
def test_what_comes_in_is_booked_in_full(fee, to_merchant, booked, owed):
    one = Received("a", "buyer", 100, fee, "dest", "fees", to_merchant, booked, owed)
    for legs in (postings.settled(one, "m"), postings.late(one, "m"), postings.held(one)):
        assert sum(leg.amount for leg in legs) == 100
        assert all(leg.amount > 0 for leg in legs)
    # without a fee nothing is earned
    earned = [leg for leg in postings.settled(one, "m") if leg.credit == accounts.FEE]
    assert sum(leg.amount for leg in earned) == fee
    for legs in (postings.late(one, "m"), postings.held(one)):
        assert accounts.FEE not in {leg.credit for leg in legs}


def test_a_reversal_is_the_other_way_round():
    legs = postings.spent("w", "coin", 5, 7)
    assert postings.reversed_(postings.reversed_(legs)) == legs
    assert {leg.debit for leg in postings.reversed_(legs)} == {accounts.wallet("w")}
