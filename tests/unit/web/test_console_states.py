"""States and alarms of the console: each has words, and a sign."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from florin.v1 import condition_pb2, payment_pb2, refund_pb2, system_pb2
from florin_server.base.clock import TestClock
from florin_server.domain.conditions import CONDITION_SPECS, ConditionName
from florin_server.web.console import view
from florin_server.web.console.fields import group_fields
from florin_server.web.console.list_controls import list_chips, list_sort_links, list_tabs
from florin_server.web.console.listing import PaymentFilters
from florin_server.web.console.operator.alarms import list_alarms
from florin_server.web.console.pills import get_pill
from florin_server.web.console.timeline import list_steps
from florin_server.web.console.view import Formatter
from florin_server.web.glyphs import draw_icon
from florin_server.web.language import get_translations
from google.protobuf.timestamp_pb2 import Timestamp

APP = SimpleNamespace(
    find_asset=lambda _: None, list_assets=lambda **_: {}, clock=TestClock(1_800_000_000_000_000)
)
TEXTS = get_translations("en", "console")
FORMATTER = Formatter(APP, TEXTS)
# kinds that are written in words, and whose values no page shows as a state
_WORDS = {"payout_kind", "key_kind", "scope", "settlement"}


@pytest.mark.parametrize("kind", sorted(set(view.ENUMS) - _WORDS))
def test_every_state_has_a_word_and_a_sign(kind):
    for number in view.ENUMS[kind].values()[1:]:
        pill = FORMATTER.pill(kind, number)
        assert pill.look in {"good", "warn", "bad", "info", "plain"}
        assert draw_icon(pill.sign)
        # unknown states have the sign of information
        assert pill.sign != "info" or pill.word == "Notice"
    assert get_pill(TEXTS, f"{kind}.from_the_future").word == "From the future"


def test_every_condition_has_a_sentence():
    system = system_pb2.GetSystemStatusResponse()
    for place in (system.conditions, system.chains.add(chain_id="eip155:1").conditions):
        for name in (*ConditionName, "from_the_future"):
            place.add(name=name, state=condition_pb2.CONDITION_STATE_WARNING, reason="why")
        place.add(name="fine", state=condition_pb2.CONDITION_STATE_OK)
        place.add(name="worst", state=condition_pb2.CONDITION_STATE_CRITICAL)
    alarms = list_alarms(FORMATTER, system)
    assert len(alarms) == 2 * (len(ConditionName) + 2)
    assert [alarm.state.word for alarm in alarms[:3]] == ["Critical", "Critical", "Warning"]
    assert all("{" not in alarm.title for alarm in alarms)
    # English pages say what the documents and the metrics say
    described = {alarm.meaning.lower() for alarm in alarms}
    assert {f"{spec.description.lower()}." for spec in CONDITION_SPECS.values()} <= described
    remedies = {alarm.to_do.lower() for alarm in alarms}
    assert {f"{spec.remedy.lower()}." for spec in CONDITION_SPECS.values()} <= remedies
    assert sum("eip155:1" in alarm.title for alarm in alarms) > 10


def filters(**values: str) -> PaymentFilters:
    return PaymentFilters(group_fields(list(values.items())))


def test_tabs_and_chips_keep_the_other_filters_and_start_at_the_first_page():
    chosen = filters(status="succeeded", reference="a&b", token="USDC", cursor="x", sort="amount")
    tabs = {tab.name: tab for tab in list_tabs(TEXTS, chosen, {"succeeded": 3, "failed": 1})}
    assert [tab.name for tab in tabs.values() if tab.current] == ["Paid"]
    assert {tab.name: tab.count for tab in tabs.values()} == {
        "All": 4,
        "Paid": 3,
        "Open": 0,
        "Not paid": 1,
    }
    assert tabs["All"].address == "reference=a%26b&token=USDC&sort=amount"
    assert tabs["Open"].address.endswith("&status=requires_action&status=processing")
    assert [(chip.text, chip.address) for chip in list_chips(TEXTS, chosen)] == [
        ("Reference a&b", "status=succeeded&token=USDC&sort=amount"),
        ("USDC", "status=succeeded&reference=a%26b&sort=amount"),
    ]
    links = list_sort_links(chosen)
    assert (links["amount"].order, links["date"].order) == ("descending", "")
    assert links["amount"].address.endswith("sort=amount&dir=asc")
    assert "sort" not in links["date"].address
    assert "cursor" not in str([*tabs.values(), *links.values(), *list_chips(TEXTS, chosen)])
    assert {tab.count for tab in list_tabs(TEXTS, chosen, None)} == {None}


def test_a_timeline_begins_with_the_newest_step():
    def at(seconds: int) -> Timestamp:
        return Timestamp(seconds=seconds)

    events = [
        payment_pb2.PaymentEvent(cause=cause, status=status, at=at(seconds), request_id=request)
        for cause, status, seconds, request in (
            ("created", payment_pb2.PAYMENT_STATUS_REQUIRES_ACTION, 1, "r1"),
            ("confirm_accepted", payment_pb2.PAYMENT_STATUS_PROCESSING, 2, ""),
            ("effect_final", payment_pb2.PAYMENT_STATUS_SUCCEEDED, 2, ""),
        )
    ]
    failed = refund_pb2.Refund(
        status=refund_pb2.REFUND_STATUS_FAILED, created_at=at(3), completed_at=at(4)
    )
    steps = list_steps(FORMATTER, events, [failed])
    assert [step.title for step in steps] == [
        *("Failed", "Refund requested"),
        *("Paid", "Confirmed by the buyer", "Created"),
    ]
    assert (steps[0].state.look, steps[-1].request_id) == ("bad", "r1")
