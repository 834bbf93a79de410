"""Refusals as sentences for people."""

from __future__ import annotations

from typing import Final

from grpc_rest_gateway.errors import RefusedError
from markupsafe import Markup

from florin_server.domain.errors import ERROR_SPECS, ErrorCode
from florin_server.web.console.languages import NOUN
from florin_server.web.language import Translations, get_translations

# codes whose usual message the console has in all languages; other messages of the API have
# details, and stay as the API writes them
TRANSLATED_CODES: Final = frozenset(
    {
        ErrorCode.RATE_LIMITED,
        ErrorCode.PAYMENT_NOT_FOUND,
        ErrorCode.IDEMPOTENCY_CONFLICT,
        ErrorCode.INTERNAL_ERROR,
        ErrorCode.INVALID_API_KEY,
        ErrorCode.UNAUTHORIZED,
        ErrorCode.PAYMENT_EXPIRED,
        ErrorCode.MERCHANT_NOT_FOUND,
        ErrorCode.MERCHANT_EXISTS,
        ErrorCode.API_KEY_NOT_FOUND,
        ErrorCode.PARTNER_NOT_FOUND,
        ErrorCode.WALLET_NOT_FOUND,
        ErrorCode.EXECUTOR_NOT_FOUND,
        ErrorCode.PAYMENT_NOT_SUCCEEDED,
        ErrorCode.ALREADY_REFUNDED,
        ErrorCode.NOT_FOUND,
        ErrorCode.SETTLEMENT_ASSET_CONFLICT,
    }
)


class ConsoleError(RefusedError):
    """A refusal by the console itself; `key` names its message, which `values` fill in."""

    def __init__(self, status: int, key: str, **values: object) -> None:
        self.key = key
        self.values = values
        # for logs and programs
        text = get_translations("en", NOUN).plain(key, **values)
        super().__init__(status, ErrorCode.INVALID_PARAMS, text)


def describe_refusal(error: RefusedError, texts: Translations) -> str:
    """Return the text of a refusal, with the problem of each field.

    Messages of the API are English and marked as such.
    """
    if isinstance(error, ConsoleError):
        return texts.plain(error.key, **error.values)
    if error.code in TRANSLATED_CODES and not error.issues:
        code = ErrorCode(error.code)
        if code is ErrorCode.RATE_LIMITED or error.message == ERROR_SPECS[code].message:
            return texts.plain(f"code.{code}")
    issue_texts = [f"{issue.field} {issue.message}" for issue in error.issues]
    message = ". ".join(issue_texts or [error.message])
    if texts.language != "en":
        message = Markup('<span lang="en" dir="ltr">{}</span>').format(message)
    if error.status == 403:
        return Markup("{}: {}").format(message, texts.plain("fault.not_allowed"))
    return message
