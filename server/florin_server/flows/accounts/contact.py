"""What the operator may call an account, and how it may look."""

from __future__ import annotations

from florin_server.domain.accounts import contact
from florin_server.domain.errors import Issue, invalid_members

# the operator's messages call the members by shorter names than a partner's do
_MEMBERS = {"merchantName": "name", "merchantEmail": "email"}


def check(name: str, *, email: str | None = None, icon_url: str | None = None) -> None:
    """Refuses, with params_validation, what cannot be shown or cannot be reached."""
    issues = [
        Issue(_MEMBERS.get(issue.field, issue.field), issue.message)
        for issue in contact.faults(name, email, icon_url)
    ]
    if issues:
        raise invalid_members(issues)
