"""The API keys of a partner; only the operator creates and revokes them."""

from __future__ import annotations

from florin.v1 import account_pb2
from grpc_rest_gateway.plain import PlainResponse

from florin_server.accounts.service.keys import list_keys, list_uses
from florin_server.money.payments.service.search import find_partner_id
from florin_server.web.console.site import ConsoleRequest

PATH = "/console/keys"
_KEYS_SHOWN = 100


async def show(console_request: ConsoleRequest) -> PlainResponse:
    """List the newest keys of the session's mode; none shows its secret."""
    # refuses a revoked key, and counts in its rate limit
    await console_request.call(
        "AdminService.ListMerchants", account_pb2.ListMerchantsRequest(limit=1)
    )
    app, session = console_request.console.app, console_request.session
    partner_id = await find_partner_id(app, session.holder)
    keys = [] if partner_id is None else await list_keys(app, partner_id)
    uses = {} if partner_id is None else await list_uses(app, partner_id)
    own = [key for key in keys if key.live is session.live]
    own.sort(key=lambda key: (key.revoked_at_us is not None, -key.created_at_us))
    return console_request.render_page(
        "merchant/keys",
        console_request.texts.plain("nav.keys"),
        keys=own[:_KEYS_SHOWN],
        count=len(own),
        uses=uses,
    )
