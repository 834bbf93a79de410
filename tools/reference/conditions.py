"""`conditions.md`: what can be wrong with a chain or the installation, and what to do then."""

from __future__ import annotations

from florin_gateway.openapi import Comments
from florin_server.domain.conditions import MEANINGS, ConditionName, State
from florin_server.domain.health import REASON_MAX

from tools.reference.markdown import code, page, sentence, table

_ABOUT = f"""\
`florin doctor` prints what is not `ok`, and `GetSystemStatus` of the operator's API tells every
condition of every chain, with its state, a reason, and since when it is in that state. A chain has
each condition once, however much is wrong with it, and its reason has at most {REASON_MAX}
characters.

Conditions are in the store. Whoever holds the lease of a chain's keys reports them within seconds,
and every process answers the same, with the same times, also after a restart. A condition that is
about one process names it as `process HOST:PID`. While the store is away a process answers
`store_unreachable` and what it knows itself.

Alarms look at name and state. The reason is for people: it may be put in other words by any
release."""
_STATES = "Every condition is `ok`, or in the one state that the table below names."


def conditions(image: bytes) -> str:
    """The document; `image` is the descriptor set of the protos with comments."""
    comments = Comments(image)
    states = [
        (
            code(one),
            sentence(comments.of(f"florin.v1.ConditionState.CONDITION_STATE_{one.upper()}")),
        )
        for one in State
    ]
    rows = [
        (code(name), code(meaning.state), sentence(meaning.tells), sentence(meaning.to_do))
        for name in ConditionName
        for meaning in (MEANINGS[name],)
    ]
    return page(
        "Conditions",
        _ABOUT,
        "## States",
        _STATES,
        table(("State", "Meaning"), states),
        "## Conditions",
        table(("Condition", "State", "What is wrong", "What to do"), rows),
    )
