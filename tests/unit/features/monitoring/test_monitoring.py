"""Test that alert rules and dashboard use existing metrics, and work with several processes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import promql_parser as promql
import pytest
import yaml
from florin_server.web.metric_labels import STORE_METRICS
from florin_server.web.metrics import list_families

from tests.support.documents import ROOT, read_document
from tools import dashboard

FOLDER = ROOT / "deploy" / "monitoring"
RULES = yaml.safe_load((FOLDER / "florin.rules.yml").read_text())["groups"][0]["rules"]
PANELS = [
    (panel["title"], target["expr"])
    for panel in json.loads(dashboard.render_dashboard())["panels"]
    for target in panel.get("targets", ())
]
# metrics of Prometheus and its client, with their labels
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
    """Return every series with its type and its labels."""
    results = {
        name: ("counter" if "_total" in name else "gauge", own) for name, own in OF_OTHERS.items()
    }
    for family in list_families():
        if family.kind != "histogram":
            results[family.name] = family.kind, set(family.labels)
        for suffix in SUFFIXES if family.kind == "histogram" else ():
            more = {"le"} if suffix == "_bucket" else set()
            results[family.name + suffix] = "counter", {*family.labels, *more}
    return results


KNOWN = series()


def parts(item: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Yield every node of an expression with its parents."""
    yield item, above
    for name in ("expr", "lhs", "rhs", "vs", "vector_selector", "param"):
        inner = getattr(item, name, None)
        if inner is not None and not isinstance(inner, str):
            yield from parts(inner, (*above, item))
    for inner in getattr(item, "args", None) or ():
        yield from parts(inner, (*above, item))


def parsed(text: str) -> Any:
    return promql.parse(text.replace("$__rate_interval", "5m").replace("$chain", "eip155:1"))


def selectors(text: str) -> list[tuple[Any, tuple[Any, ...]]]:
    return [
        (item, above)
        for item, above in parts(parsed(text))
        if isinstance(item, promql.VectorSelector)
    ]


def list_selected_metrics(text: str) -> set[str]:
    return {item.name for item, _ in selectors(text)}


def base(name: str) -> str:
    """Return the metric of a series."""
    existing = {family.name for family in list_families()}
    return next((name.removesuffix(s) for s in SUFFIXES if name.removesuffix(s) in existing), name)


EXPRESSIONS = [
    pytest.param(text, id=f"{name} {n}")
    for n, (name, text) in enumerate([*((item["alert"], item["expr"]) for item in RULES), *PANELS])
]


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_expression_uses_existing_metrics_and_labels(text):
    results = selectors(text)
    # the parser found every metric in the text
    assert {each_item.name for each_item, _ in results} == set(
        re.findall(r"\b(?:florin_|process_)\w+|\bup\b", re.sub(r'"[^"]*"', "", text))
    )
    for item, above in results:
        kind, labels = KNOWN[item.name]
        assert {match.name for match in item.matchers.matchers} <= labels, text
        functions = {call.func.name for call in above if isinstance(call, promql.Call)}
        assert bool(functions & PER_SECOND) is (kind == "counter"), text
        assert not functions & OVER_TIME or kind == "gauge", text


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_an_expression_is_right_for_several_processes(text):
    for item, above in selectors(text):
        if item.name in OF_OTHERS:
            continue
        around = [node for node in above if isinstance(node, promql.AggregateExpr)]
        assert around, text
        inner = around[-1]
        kind, labels = KNOWN[item.name]
        by = set(inner.modifier.labels) if inner.modifier else set()
        assert "without" not in text
        assert by <= labels, text
        how = str(inner.op).lower()
        assert ("sum" in how) if kind == "counter" else re.search("max|min|sum", how), text


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_every_alert_has_a_severity_a_summary_and_a_runbook(rule):
    assert rule["labels"]["severity"] in {"page", "ticket"}
    assert rule["annotations"]["summary"].strip()
    assert rule["annotations"]["runbook"] == f"docs/alarms.md#{rule['alert'].lower()}"
    for label in re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]):
        assert label in rule["expr"], label


def test_every_alert_has_its_section_and_every_section_its_alert():
    sections = re.findall(r"^## (\w+)\n\n(\S)", read_document("docs/alarms.md"), re.MULTILINE)
    assert [name for name, _ in sections] == [rule["alert"] for rule in RULES]


def test_every_runbook_names_the_database():
    sections = re.split(r"^## ", read_document("docs/alarms.md"), flags=re.MULTILINE)[1:]
    assert [section.splitlines()[0] for section in sections if "database" not in section] == []


def test_store_that_is_away_pages_by_a_metric_that_needs_no_store():
    (rule,) = [item for item in RULES if item["alert"] == "FlorinStoreIsAway"]
    assert rule["labels"]["severity"] == "page"
    assert list_selected_metrics(rule["expr"]).isdisjoint(
        f"florin_{text}" for text in STORE_METRICS
    )


def test_every_metric_is_in_a_panel():
    shown = {base(name) for _, text in PANELS for name in list_selected_metrics(text)}
    assert {family.name for family in list_families()} - shown == set()


def test_the_dashboard_is_current():
    assert dashboard.DASHBOARD_FILE.read_text() == dashboard.render_dashboard(), "run `make gen`"
    panels = json.loads(dashboard.render_dashboard())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [tuple(panel["gridPos"].values()) for panel in panels]
    assert len({place[:2] for place in places}) == len(places)


def test_expression_with_an_unknown_metric_or_bare_value_is_detected():
    """The checks above must find a wrong name, a wrong label, a bare gauge and a bare counter."""
    for wrong in (
        "max(florin_payment)",
        'max(florin_payments{chain="x"})',
        "sum(florin_limit_refusals_total)",
    ):
        with pytest.raises((KeyError, AssertionError)):
            test_expression_uses_existing_metrics_and_labels(wrong)
    for wrong in ("florin_payments > 1", "max by (instance) (florin_payments)"):
        with pytest.raises(AssertionError):
            test_an_expression_is_right_for_several_processes(wrong)


def test_prometheus_reads_the_rules_that_are_there():
    result = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
    assert all((FOLDER / name).exists() for name in result["rule_files"])
    assert result["scrape_configs"][0]["job_name"] == "florin"
