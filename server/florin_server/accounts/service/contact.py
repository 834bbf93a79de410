"""Names and appearance of accounts that the operator can set."""

from __future__ import annotations

from florin_server.domain.accounts import contact
from florin_server.domain.accounts.contact import SupportContact
from florin_server.domain.errors import FieldIssue, validation_error_for

# the operator's messages have shorter member names than a partner's
_FIELD_NAMES = {"merchantName": "name", "merchantEmail": "email"}
_NO_SUPPORT = SupportContact()


def check(
    name: str | None,
    *,
    email: str | None = None,
    icon_url: str | None = None,
    support: SupportContact = _NO_SUPPORT,
) -> None:
    """Refuse, with params_validation, what cannot be shown or cannot be reached."""
    issues = [
        FieldIssue(_FIELD_NAMES.get(issue.field, issue.field), issue.message)
        for issue in (*contact.list_issues(name, email, icon_url), *support.list_issues())
    ]
    if issues:
        raise validation_error_for(issues)
