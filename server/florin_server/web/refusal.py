"""How plain routes tell a refusal of the service."""

from __future__ import annotations

from florin_gateway.errors import Issue, RefusedError

from florin_server.domain.errors import FlorinError


def refusal(refused: FlorinError) -> RefusedError:
    """The same refusal, as the gateway answers it."""
    wait_s = refused.retry_after_s
    return RefusedError(
        refused.http,
        refused.code,
        refused.message,
        issues=[Issue(issue.field, issue.message) for issue in refused.issues],
        details=refused.details,
        headers=[] if wait_s is None else [(b"retry-after", b"%d" % wait_s)],
    )
