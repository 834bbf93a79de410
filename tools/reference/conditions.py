"""`conditions.md`: problems of a chain or the installation, and their remedies."""

from __future__ import annotations

from florin_server.domain.conditions import CONDITION_SPECS, ConditionName, ConditionState
from florin_server.domain.health import REASON_MAX
from grpc_rest_gateway.openapi import ProtoComments

from tools.reference.markdown import format_code, format_sentence, render_page, render_table

_ABOUT = f"""\
`florin doctor` prints the conditions that are not `ok`. `GetSystemStatus` of the operator's API
returns all conditions of every chain, with state, reason, and the start of that state. A chain has
each condition once, however many problems it has, and its reason has at most {REASON_MAX}
characters.

Conditions are stored in the database. The process with the lease of a chain's keys reports them
within seconds. Every process returns the same conditions, with the same times, also after a
restart. A condition of one process names it as `process HOST:PID`. While the database is
unreachable, a process returns `store_unreachable` and the conditions that it observes itself.

Alarms must check name and state. The reason is for people: any release can change its
wording."""
_STATES = "Every condition is `ok`, or in the state given in the table below."


def render_conditions(image: bytes) -> str:
    """Return the document; `image` is the descriptor set of the protos with comments."""
    comments = ProtoComments(image)
    states = [
        (
            format_code(state),
            format_sentence(
                comments.get_comment(f"florin.v1.ConditionState.CONDITION_STATE_{state.upper()}")
            ),
        )
        for state in ConditionState
    ]
    rows = [
        (
            format_code(name),
            format_code(meaning.state),
            format_sentence(meaning.description),
            format_sentence(meaning.remedy),
        )
        for name in ConditionName
        for meaning in (CONDITION_SPECS[name],)
    ]
    return render_page(
        "Conditions",
        _ABOUT,
        "## States",
        _STATES,
        render_table(("State", "Meaning"), states),
        "## Conditions",
        render_table(("Condition", "State", "Problem", "Remedy"), rows),
    )
