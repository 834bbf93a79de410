"""Names and prose use the terms of the field; what is left of others only shrinks."""

from __future__ import annotations

import ast

import pytest

from tests.support import words


def test_no_word_to_be_replaced_occurs_more_often_than_before():
    assert words.grown(words.count_words()) == []


def test_public_class_names_are_unique_in_each_package():
    for package, counts in words.public_classes().items():
        assert {name: n for name, n in counts.items() if n > 1} == {}, package


@pytest.mark.parametrize(
    "code",
    [
        *("told = 1", "def f(told): ...", "x.told", "f(told=1)", "def told(): ..."),
        *("TOLD = 1", "class Told: ...", "x._told"),
    ],
)
def test_every_use_of_a_name_counts(code):
    assert list(words.names_in(ast.parse(code))).count("told") == 1
    assert words.has_banned_name(code)


@pytest.mark.parametrize(
    "docstring", ['"""What it does."""', "r'''\n    The same of a list.\n    '''", "'Who calls.'"]
)
def test_every_banned_beginning_of_a_docstring_is_noticed(docstring):
    code = f"def f():\n    {docstring}\n"
    assert len([*words.docstrings_in(ast.parse(code))]) == 1
    assert words.has_banned_docstring(code)
    assert not words.has_banned_docstring("def f():\n    'Return the same.'\n")


def test_name_of_another_package_does_not_count():
    code = "from hypothesis import given\nfrom tests.support import told\ngiven, told"
    assert list(words.names_in(ast.parse(code))) == ["told"]


def test_higher_word_count_is_reported_with_its_replacement(monkeypatch):
    monkeypatch.setattr(words, "read_baseline", lambda: {"names of tests": {"told": 3}})
    assert words.grown({"names of tests": {"told": 3}}) == []
    (problem,) = words.grown({"names of tests": {"told": 4}})
    assert problem == (
        "names of tests: told occurs 4 times, 3 are allowed; write message, report, detail"
    )


def test_no_module_has_a_name_of_the_old_dialect():
    modules = [path for area in words.CODE for path in words.python_files(area)]
    assert words.module_problems(modules) == []


def test_module_with_an_old_word_in_its_name_is_reported():
    (problem,) = words.module_problems([words.ROOT / "tests/unit/test_settler_told.py"])
    assert problem == (
        "tests/unit/test_settler_told.py: told is banned in names of modules; "
        "write message, report, detail"
    )
