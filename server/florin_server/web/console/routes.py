"""Both consoles as routes: who may sign in, and what each path shows or does."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping

from florin.v1 import (
    account_pb2,
    admin_pb2,
    merchant_pb2,
    operator_pb2,
    system_pb2,
    webhook_service_pb2,
)
from florin_gateway.plain import PlainHandler, PlainRequest
from florin_gateway.rpc import Backend, Metadata

from florin_server.domain.accounts.credentials import parse_key
from florin_server.flows.app import App
from florin_server.web.console import login
from florin_server.web.console.calls import Calls
from florin_server.web.console.merchant import create, merchants, overview, payment, webhooks
from florin_server.web.console.merchant import payments as own_payments
from florin_server.web.console.operator import (
    accounts,
    books,
    held,
    payments,
    payouts,
    quarantine,
    status,
)
from florin_server.web.console.operator import webhooks as all_webhooks
from florin_server.web.console.session import Session, Sessions
from florin_server.web.console.site import ROOT, Page, Realm, Site

Routes = Mapping[tuple[str, str], PlainHandler]

_MERCHANT = (
    merchant_pb2.DESCRIPTOR.services_by_name["MerchantService"],
    admin_pb2.DESCRIPTOR.services_by_name["AdminService"],
    webhook_service_pb2.DESCRIPTOR.services_by_name["WebhookService"],
)
_OPERATOR = (operator_pb2.DESCRIPTOR.services_by_name["OperatorService"],)

_MERCHANT_READS: Mapping[str, Page] = {
    ROOT: overview.show,
    own_payments.PATH: own_payments.show,
    f"{own_payments.PATH}/export": own_payments.file,
    create.PATH: create.show,
    payment.PATH: payment.show,
    merchants.PATH: merchants.show,
    merchants.ONE: merchants.one,
    webhooks.PATH: webhooks.show,
    webhooks.ONE: webhooks.one,
}
_MERCHANT_TELLS: Mapping[str, Page] = {
    f"{own_payments.PATH}/rows": own_payments.rows,
    f"{payment.PATH}/events": payment.events,
}
MERCHANT_WRITES: Mapping[str, Page] = {
    create.PATH: create.create,
    f"{payment.PATH}/refund": payment.refund,
    f"{payment.PATH}/cancel": payment.cancel,
    f"{payment.PATH}/simulate": payment.simulate,
    f"{merchants.ONE}/destinations": merchants.add,
    f"{merchants.ONE}/destinations/{{settlement_id}}/change": merchants.change,
    f"{merchants.ONE}/destinations/{{settlement_id}}/remove": merchants.remove,
}
# of RPCs that know no form by its id
MERCHANT_WRITES_ONCE: Mapping[str, Page] = {
    webhooks.PATH: webhooks.create,
    f"{webhooks.ONE}/pause": webhooks.pause,
    f"{webhooks.ONE}/rotate": webhooks.rotate,
    f"{webhooks.ONE}/remove": webhooks.remove,
    f"{webhooks.ONE}/replay": webhooks.replay,
    f"{webhooks.ONE}/replay-since": webhooks.replay_since,
}
# these take a sign-in of the last ten minutes: money goes elsewhere, or who is told
MERCHANT_FRESH = frozenset(
    {
        f"{payment.PATH}/refund",
        f"{merchants.ONE}/destinations",
        f"{merchants.ONE}/destinations/{{settlement_id}}/change",
        f"{merchants.ONE}/destinations/{{settlement_id}}/remove",
        webhooks.PATH,
        f"{webhooks.ONE}/rotate",
        f"{webhooks.ONE}/remove",
    }
)
_OPERATOR_READS: Mapping[str, Page] = {
    ROOT: status.show,
    payments.PATH: payments.show,
    f"{payments.PATH}/export": payments.file,
    f"{payments.PATH}/find": payments.find,
    payments.ONE: payments.one,
    payouts.PATH: payouts.show,
    held.PATH: held.show,
    quarantine.PATH: quarantine.show,
    books.PATH: books.show,
    accounts.PATH: accounts.show,
    all_webhooks.PATH: all_webhooks.show,
    all_webhooks.ONE: all_webhooks.one,
}
_OPERATOR_TELLS: Mapping[str, Page] = {f"{payments.PATH}/rows": payments.rows}
OPERATOR_WRITES: Mapping[str, Page] = {
    f"{ROOT}/executors/pause": status.pause,
    f"{ROOT}/executors/resume": status.resume,
    f"{payouts.PATH}/new": payouts.create,
    f"{payouts.PATH}/refuse": payouts.refuse,
    f"{payouts.PATH}/resolve": payouts.resolve,
    f"{held.PATH}/resolve": held.resolve,
    f"{quarantine.PATH}/retry": quarantine.retry,
    f"{quarantine.PATH}/resolve": quarantine.resolve,
    f"{books.PATH}/difference": books.book,
    f"{accounts.PATH}/partners": accounts.create_partner,
    f"{accounts.PATH}/partners/status": accounts.set_partner,
    f"{accounts.PATH}/keys": accounts.create_key,
    f"{accounts.PATH}/keys/revoke": accounts.revoke_key,
    f"{accounts.PATH}/wallets/revoke": accounts.revoke_wallet,
    f"{all_webhooks.ONE}/pause": all_webhooks.pause,
}
OPERATOR_FRESH = frozenset(OPERATOR_WRITES) - {f"{all_webhooks.ONE}/pause"}


def of_merchants(app: App, proving: Backend, proven: Backend, key: bytes) -> Routes:
    """The merchants' console.

    `proving` takes keys as callers send them, `proven` their ids, of who showed a key before.
    """
    shown = Calls(proving, _MERCHANT)

    async def prove(secret: str, peer: str) -> tuple[str, bool]:
        request = account_pb2.ListMerchantsRequest(limit=1)
        await shown.ask("AdminService.ListMerchants", request, (("api-key", secret),), peer)
        known = parse_key(secret)
        if known is None:
            raise RuntimeError("a key was taken that is none")
        return known.key_id, known.live

    realm = Realm(
        name="merchant",
        shown="an API key",
        links=(
            (ROOT, "Overview"),
            (own_payments.PATH, "Payments"),
            (create.PATH, "New payment"),
            (merchants.PATH, "Merchants"),
            (webhooks.PATH, "Webhooks"),
        ),
        prove=prove,
        credential=lambda session: (("api-key", session.holder),),
        keyed=True,
        near=lambda _: True,
    )
    site = Site(app, realm, Calls(proven, _MERCHANT), _sessions(app, "console", key))
    once = {
        ("POST", path): site.writes(page, once=True, fresh=path in MERCHANT_FRESH)
        for path, page in MERCHANT_WRITES_ONCE.items()
    }
    keyed = _routes(site, _MERCHANT_READS, _MERCHANT_TELLS, MERCHANT_WRITES, MERCHANT_FRESH)
    return {**keyed, **once}


def of_operator(
    app: App, backend: Backend, token: str, key: bytes, near: Callable[[PlainRequest], bool]
) -> Routes:
    """The operator's console; `near` tells requests by a name of this machine."""
    calls = Calls(backend, _OPERATOR)

    async def prove(secret: str, peer: str) -> tuple[str, bool]:
        request = system_pb2.GetSystemStatusRequest()
        await calls.ask("OperatorService.GetSystemStatus", request, _bearer(secret), peer)
        return "operator", False

    def credential(_: Session) -> Metadata:
        return _bearer(token)

    realm = Realm(
        name="operator",
        shown="the operator's token",
        links=(
            (ROOT, "Status"),
            (payments.PATH, "Payments"),
            (payouts.PATH, "Payouts"),
            (held.PATH, "Held money"),
            (quarantine.PATH, "Quarantine"),
            (books.PATH, "Books"),
            (accounts.PATH, "Accounts"),
            (all_webhooks.PATH, "Webhooks"),
        ),
        prove=prove,
        credential=credential,
        keyed=False,
        near=near,
    )
    site = Site(app, realm, calls, _sessions(app, "operator", key))
    return _routes(site, _OPERATOR_READS, _OPERATOR_TELLS, OPERATOR_WRITES, OPERATOR_FRESH)


def _bearer(token: str) -> Metadata:
    return (("authorization", f"Bearer {token}"),)


def _sessions(app: App, name: str, key: bytes) -> Sessions:
    return Sessions(name, key, app.clock, app.randbytes, app.links.base)


def _routes(
    site: Site,
    reads: Mapping[str, Page],
    tells: Mapping[str, Page],
    writes: Mapping[str, Page],
    fresh: Container[str],
) -> Routes:
    return {
        **login.routes(site),
        **{(method, path): site.reads(reads[path]) for path in reads for method in ("GET", "HEAD")},
        **{("GET", path): site.tells(tells[path]) for path in tells},
        **{("POST", path): site.writes(writes[path], fresh=path in fresh) for path in writes},
    }
