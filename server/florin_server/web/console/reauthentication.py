"""The page that asks for the key again, before an action that needs a sign-in from just before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpc_rest_gateway.plain import PlainResponse

if TYPE_CHECKING:
    from florin_server.web.console.site import ConsoleRequest

# the field with the key; never shown back
REAUTH_FIELD: Final = "secret_again"


def render_reauthentication(
    console_request: ConsoleRequest, status: int, problem: str
) -> PlainResponse:
    """Return the page; it keeps the fields of the form, and nothing has changed yet."""
    return console_request.render_page(
        "reauthenticate",
        console_request.texts.plain("reauthenticate.title"),
        status,
        fields=console_request.form.list_pairs({REAUTH_FIELD}),
        problem=problem,
        name=REAUTH_FIELD,
    )
