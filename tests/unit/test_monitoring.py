"""Rules and dashboard ask for metrics that there are, and are right for several processes too."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import promql_parser as promql
import pytest
import yaml
from florin_server.web.metrics import FROM_STORE, families

from tests.support.documents import ROOT, text_of
from tools import dashboard

FOLDER = ROOT / "deploy" / "monitoring"
RULES = yaml.safe_load((FOLDER / "florin.rules.yml").read_text())["groups"][0]["rules"]
PANELS = [
    (panel["title"], target["expr"])
    for panel in json.loads(dashboard.dashboard())["panels"]
    for target in panel.get("targets", ())
]
# what Prometheus and its client know by themselves, with their labels
OF_OTHERS = {
    "up": {"job"},
    "process_cpu_seconds_total": {"job"},
    "process_resident_memory_bytes": {"job"},
    "process_open_fds": {"job"},
}
SUFFIXES = ("_bucket", "_count", "_sum")
PER_SECOND = {"rate", "increase", "irate"}
OVER_TIME = {"changes", "delta"}


def series() -> dict[str, tuple[str, set[str]]]:
    """Every name that can be asked for, whether it only grows, and its labels."""
    found = {
        name: ("counter" if "_total" in name else "gauge", own) for name, own in OF_OTHERS.items()
    }
    for one in families():
        if one.kind != "histogram":
            found[one.name] = one.kind, set(one.labels)
        for suffix in SUFFIXES if one.kind == "histogram" else ():
            more = {"le"} if suffix == "_bucket" else set()
            found[one.name + suffix] = "counter", {*one.labels, *more}
    return found


KNOWN = series()


def parts(one: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Every node of an expression, with those that it is in."""
    yield one, above
    for name in ("expr", "lhs", "rhs", "vs", "vector_selector", "param"):
        inner = getattr(one, name, None)
        if inner is not None and not isinstance(inner, str):
            yield from parts(inner, (*above, one))
    for inner in getattr(one, "args", None) or ():
        yield from parts(inner, (*above, one))


def parsed(text: str) -> Any:
    return promql.parse(text.replace("$__rate_interval", "5m").replace("$chain", "eip155:1"))


def selectors(text: str) -> list[tuple[Any, tuple[Any, ...]]]:
    return [
        (one, above) for one, above in parts(parsed(text)) if isinstance(one, promql.VectorSelector)
    ]


def told(text: str) -> set[str]:
    return {one.name for one, _ in selectors(text)}


def base(name: str) -> str:
    """The metric that a series belongs to."""
    known = {one.name for one in families()}
    return next((name.removesuffix(s) for s in SUFFIXES if name.removesuffix(s) in known), name)


EXPRESSIONS = [
    pytest.param(text, id=f"{name} {n}")
    for n, (name, text) in enumerate([*((one["alert"], one["expr"]) for one in RULES), *PANELS])
]


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_an_expression_asks_for_what_there_is(text):
    found = selectors(text)
    # the parser has told all that is written there
    assert {one.name for one, _ in found} == set(
        re.findall(r"\b(?:florin_|process_)\w+|\bup\b", re.sub(r'"[^"]*"', "", text))
    )
    for one, above in found:
        kind, labels = KNOWN[one.name]
        assert {match.name for match in one.matchers.matchers} <= labels, text
        functions = {call.func.name for call in above if isinstance(call, promql.Call)}
        assert bool(functions & PER_SECOND) is (kind == "counter"), text
        assert not functions & OVER_TIME or kind == "gauge", text


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_an_expression_is_right_for_several_processes(text):
    for one, above in selectors(text):
        if one.name in OF_OTHERS:
            continue
        around = [node for node in above if isinstance(node, promql.AggregateExpr)]
        assert around, text
        inner = around[-1]
        kind, labels = KNOWN[one.name]
        by = set(inner.modifier.labels) if inner.modifier else set()
        assert "without" not in text
        assert by <= labels, text
        how = str(inner.op).lower()
        assert ("sum" in how) if kind == "counter" else re.search("max|min|sum", how), text


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_says_what_to_do(rule):
    assert rule["labels"]["severity"] in {"page", "ticket"}
    assert rule["annotations"]["summary"].strip()
    assert rule["annotations"]["runbook"] == f"docs/alarms.md#{rule['alert'].lower()}"
    for label in re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]):
        assert label in rule["expr"], label


def test_every_alert_has_its_section_and_every_section_its_alert():
    sections = re.findall(r"^## (\w+)\n\n(\S)", text_of("docs/alarms.md"), re.MULTILINE)
    assert [name for name, _ in sections] == [rule["alert"] for rule in RULES]


def test_every_runbook_names_the_database():
    sections = re.split(r"^## ", text_of("docs/alarms.md"), flags=re.MULTILINE)[1:]
    assert [one.splitlines()[0] for one in sections if "database" not in one] == []


def test_store_that_is_away_pages_by_a_metric_that_needs_no_store():
    (rule,) = [one for one in RULES if one["alert"] == "FlorinStoreIsAway"]
    assert rule["labels"]["severity"] == "page"
    assert told(rule["expr"]).isdisjoint(f"florin_{one}" for one in FROM_STORE)


def test_every_metric_is_in_a_panel():
    shown = {base(name) for _, text in PANELS for name in told(text)}
    assert {one.name for one in families()} - shown == set()


def test_the_dashboard_is_current():
    assert dashboard.FILE.read_text() == dashboard.dashboard(), "run `make gen`"
    panels = json.loads(dashboard.dashboard())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [tuple(panel["gridPos"].values()) for panel in panels]
    assert len({place[:2] for place in places}) == len(places)


def test_an_expression_of_a_metric_that_is_not_there_is_found():
    """The checks above would notice: a wrong name, a wrong label, a bare gauge, a bare counter."""
    for wrong in (
        "max(florin_payment)",
        'max(florin_payments{chain="x"})',
        "sum(florin_limit_refusals_total)",
    ):
        with pytest.raises((KeyError, AssertionError)):
            test_an_expression_asks_for_what_there_is(wrong)
    for wrong in ("florin_payments > 1", "max by (instance) (florin_payments)"):
        with pytest.raises(AssertionError):
            test_an_expression_is_right_for_several_processes(wrong)


def test_prometheus_reads_the_rules_that_are_there():
    told = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
    assert all((FOLDER / name).exists() for name in told["rule_files"])
    assert told["scrape_configs"][0]["job_name"] == "florin"
