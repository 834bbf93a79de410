"""Routes of both consoles: sign-in, pages and forms."""

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
from grpc_rest_gateway.errors import RefusedError
from grpc_rest_gateway.plain import PlainRequest
from grpc_rest_gateway.rpc import Metadata, RpcBackend

from florin_server.base.ttl_cache import TtlCache
from florin_server.domain.accounts.credentials import parse_key
from florin_server.web.console import audit, login, notes, search, shell
from florin_server.web.console.calls import ConsoleRpcClient
from florin_server.web.console.config import ConsoleConfig, NavGroup, NavLink
from florin_server.web.console.confirmation import Confirmer
from florin_server.web.console.context import ConsoleContext
from florin_server.web.console.merchant import (
    balances,
    branding,
    claims,
    create,
    keys,
    merchants,
    overview,
    payment,
    sessions,
    statement,
    views,
    webhooks,
)
from florin_server.web.console.merchant import payments as own_payments
from florin_server.web.console.operator import (
    accounts,
    addresses,
    books,
    health,
    held,
    payments,
    payouts,
    quarantine,
    status,
)
from florin_server.web.console.operator import webhooks as all_webhooks
from florin_server.web.console.operator.alarms import count_open_conditions
from florin_server.web.console.paths import ROOT
from florin_server.web.console.session import ConsoleSession, SessionManager
from florin_server.web.console.sign_ins import count_failures
from florin_server.web.console.site import Console, PageHandler
from florin_server.web.handlers import Routes, build_read_routes

_MERCHANT = (
    merchant_pb2.DESCRIPTOR.services_by_name["MerchantService"],
    admin_pb2.DESCRIPTOR.services_by_name["AdminService"],
    webhook_service_pb2.DESCRIPTOR.services_by_name["WebhookService"],
)
# the number of alarms in the navigation may be this old; their page reads them again
_ALARMS_AGE_US = 10_000_000
_OPERATOR = (operator_pb2.DESCRIPTOR.services_by_name["OperatorService"],)

_MERCHANT_READS: Mapping[str, PageHandler] = {
    ROOT: overview.show,
    own_payments.PATH: own_payments.show,
    f"{own_payments.PATH}/export": own_payments.download_csv,
    create.PATH: create.show,
    search.PATH: search.search_own,
    balances.PATH: balances.show,
    statement.PATH: statement.show,
    f"{statement.PATH}/export": statement.download_csv,
    payment.PATH: payment.show,
    merchants.PATH: merchants.show,
    merchants.MERCHANT_PATH: merchants.show_merchant,
    branding.PATH: branding.show,
    keys.PATH: keys.show,
    audit.PATH: audit.show,
    f"{audit.PATH}/export": audit.download_csv,
    sessions.PATH: sessions.show,
    webhooks.PATH: webhooks.show,
    webhooks.ENDPOINT_PATH: webhooks.show_endpoint,
}
_MERCHANT_SCRIPT_READS: Mapping[str, PageHandler] = {
    f"{own_payments.PATH}/rows": own_payments.show_row_states,
    f"{payment.PATH}/events": payment.stream_events,
}
MERCHANT_WRITES: Mapping[str, PageHandler] = {
    create.PATH: create.create,
    f"{payment.PATH}/refund": payment.refund,
    f"{payment.PATH}/cancel": payment.cancel,
    f"{payment.PATH}/simulate": payment.simulate,
    claims.PATH: claims.decide,
    branding.PATH: branding.save,
    branding.PREVIEW_PATH: branding.preview,
    f"{merchants.MERCHANT_PATH}/destinations": merchants.add,
    f"{merchants.MERCHANT_PATH}/destinations/{{settlement_id}}/change": merchants.change,
    f"{merchants.MERCHANT_PATH}/destinations/{{settlement_id}}/remove": merchants.remove,
}
# forms whose repetition changes nothing more
_MERCHANT_SHELL_WRITES: Mapping[str, PageHandler] = {
    sessions.ADD_PATH: sessions.add,
    sessions.SWITCH_PATH: sessions.switch,
    sessions.END_PATH: sessions.end,
    views.PATH: views.save,
    views.REMOVE_PATH: views.remove,
}
# forms whose RPCs take no idempotency key
MERCHANT_WRITES_ONCE: Mapping[str, PageHandler] = {
    f"{payment.PATH}{notes.ADD_PATH}": notes.add,
    f"{payment.PATH}{notes.DELETE_PATH}": notes.delete,
    f"{payment.PATH}{notes.RESTORE_PATH}": notes.restore,
    webhooks.PATH: webhooks.create,
    f"{webhooks.ENDPOINT_PATH}/pause": webhooks.pause,
    f"{webhooks.ENDPOINT_PATH}/rotate": webhooks.rotate,
    f"{webhooks.ENDPOINT_PATH}/remove": webhooks.remove,
    f"{webhooks.ENDPOINT_PATH}/replay": webhooks.replay,
    f"{webhooks.ENDPOINT_PATH}/replay-since": webhooks.replay_since,
}
# forms that require a sign-in from the last ten minutes: they redirect money or events
MERCHANT_FRESH_PATHS = frozenset(
    {
        f"{payment.PATH}/refund",
        claims.PATH,
        f"{merchants.MERCHANT_PATH}/destinations",
        f"{merchants.MERCHANT_PATH}/destinations/{{settlement_id}}/change",
        f"{merchants.MERCHANT_PATH}/destinations/{{settlement_id}}/remove",
        webhooks.PATH,
        f"{webhooks.ENDPOINT_PATH}/rotate",
        f"{webhooks.ENDPOINT_PATH}/remove",
    }
)
# forms that ask before they act: they move money, or something is lost or stops
MERCHANT_CONFIRMS: Mapping[str, Confirmer] = {
    f"{payment.PATH}/refund": payment.confirm_refund,
    f"{payment.PATH}/cancel": payment.confirm_cancel,
    claims.PATH: claims.confirm_decide,
    f"{merchants.MERCHANT_PATH}/destinations": merchants.confirm_add,
    f"{merchants.MERCHANT_PATH}/destinations/{{settlement_id}}/change": merchants.confirm_change,
    f"{merchants.MERCHANT_PATH}/destinations/{{settlement_id}}/remove": merchants.confirm_remove,
    f"{webhooks.ENDPOINT_PATH}/pause": webhooks.confirm_pause,
    f"{webhooks.ENDPOINT_PATH}/rotate": webhooks.confirm_rotate,
    f"{webhooks.ENDPOINT_PATH}/remove": webhooks.confirm_remove,
}
_OPERATOR_READS: Mapping[str, PageHandler] = {
    ROOT: status.show,
    health.NODES_PATH: health.show_nodes,
    payments.PATH: payments.show,
    f"{payments.PATH}/export": payments.download_csv,
    payments.PAYMENT_PATH: payments.show_payment,
    search.PATH: search.search_all,
    payouts.PATH: payouts.show,
    held.PATH: held.show,
    addresses.PATH: addresses.show,
    quarantine.PATH: quarantine.show,
    books.PATH: books.show,
    accounts.PATH: accounts.show,
    audit.PATH: audit.show,
    f"{audit.PATH}/export": audit.download_csv,
    all_webhooks.PATH: all_webhooks.show,
    all_webhooks.ENDPOINT_PATH: all_webhooks.show_attempts,
}
_OPERATOR_SCRIPT_READS: Mapping[str, PageHandler] = {
    f"{payments.PATH}/rows": payments.show_row_states
}
OPERATOR_WRITES: Mapping[str, PageHandler] = {
    f"{ROOT}/executors/pause": status.pause,
    f"{ROOT}/executors/resume": status.resume,
    f"{payouts.PATH}/new": payouts.create,
    f"{payouts.PATH}/refuse": payouts.refuse,
    f"{payouts.PATH}/resolve": payouts.resolve,
    f"{held.PATH}/resolve": held.resolve,
    addresses.SWEEP_PATH: addresses.sweep,
    f"{quarantine.PATH}/retry": quarantine.retry,
    f"{quarantine.PATH}/resolve": quarantine.resolve,
    f"{books.PATH}/difference": books.book_difference,
    f"{accounts.PATH}/partners": accounts.create_partner,
    f"{accounts.PATH}/partners/status": accounts.set_partner_status,
    f"{accounts.PATH}/keys": accounts.create_key,
    f"{accounts.PATH}/keys/revoke": accounts.revoke_key,
    f"{accounts.PATH}/wallets/revoke": accounts.revoke_wallet,
    f"{all_webhooks.ENDPOINT_PATH}/pause": all_webhooks.pause,
    f"{payments.PAYMENT_PATH}{notes.ADD_PATH}": notes.add,
    f"{payments.PAYMENT_PATH}{notes.DELETE_PATH}": notes.delete,
    f"{payments.PAYMENT_PATH}{notes.RESTORE_PATH}": notes.restore,
}
OPERATOR_CONFIRMS: Mapping[str, Confirmer] = {
    f"{ROOT}/executors/pause": status.confirm_pause,
    f"{payouts.PATH}/new": payouts.confirm_create,
    f"{payouts.PATH}/refuse": payouts.confirm_refuse,
    f"{payouts.PATH}/resolve": payouts.confirm_resolve,
    f"{held.PATH}/resolve": held.confirm_resolve,
    addresses.SWEEP_PATH: addresses.confirm_sweep,
    f"{quarantine.PATH}/resolve": quarantine.confirm_resolve,
    f"{books.PATH}/difference": books.confirm_difference,
    f"{accounts.PATH}/partners/status": accounts.confirm_partner_status,
    f"{accounts.PATH}/keys/revoke": accounts.confirm_revoke_key,
    f"{accounts.PATH}/wallets/revoke": accounts.confirm_revoke_wallet,
    f"{all_webhooks.ENDPOINT_PATH}/pause": all_webhooks.confirm_pause,
}
# all others require a sign-in from the last ten minutes
OPERATOR_FRESH_PATHS = frozenset(OPERATOR_WRITES) - {
    f"{all_webhooks.ENDPOINT_PATH}/pause",
    f"{payments.PAYMENT_PATH}{notes.ADD_PATH}",
    f"{payments.PAYMENT_PATH}{notes.DELETE_PATH}",
    f"{payments.PAYMENT_PATH}{notes.RESTORE_PATH}",
}


_MERCHANT_GROUPS = (
    NavGroup(
        "",
        (
            NavLink(ROOT, "nav.overview", "home", by_merchant=True),
            NavLink(own_payments.PATH, "nav.payments", "list", by_merchant=True),
            NavLink(create.PATH, "nav.new_payment", "link", by_merchant=True),
            NavLink(merchants.PATH, "nav.merchants", "shop"),
        ),
    ),
    NavGroup(
        "nav.money",
        (
            NavLink(balances.PATH, "nav.balances", "book", by_merchant=True),
            NavLink(statement.PATH, "nav.statement", "receipt", by_merchant=True),
        ),
    ),
    NavGroup(
        "nav.developers",
        (
            NavLink(webhooks.PATH, "nav.webhooks", "hook"),
            NavLink(keys.PATH, "nav.keys", "key"),
            NavLink(audit.PATH, "nav.audit", "log"),
        ),
    ),
)
_OPERATOR_GROUPS = (
    NavGroup(
        "", (NavLink(ROOT, "nav.status", "pulse"), NavLink(payments.PATH, "nav.payments", "list"))
    ),
    NavGroup(
        "nav.money",
        (
            NavLink(payouts.PATH, "nav.payouts", "payout"),
            NavLink(held.PATH, "nav.held", "hold"),
            NavLink(books.PATH, "nav.books", "book"),
        ),
    ),
    NavGroup(
        "nav.system",
        (
            NavLink(quarantine.PATH, "nav.quarantine", "alert"),
            NavLink(accounts.PATH, "nav.accounts", "key"),
            NavLink(all_webhooks.PATH, "nav.webhooks", "hook"),
            NavLink(audit.PATH, "nav.audit", "log"),
        ),
    ),
)


def build_merchant_routes(
    app: ConsoleContext, secret_backend: RpcBackend, key_id_backend: RpcBackend, key: bytes
) -> Routes:
    """Return the routes of the merchant console.

    `secret_backend` accepts API keys as callers send them, `key_id_backend` the ids of keys that
    were verified.
    """
    secret_client = ConsoleRpcClient(secret_backend, _MERCHANT)

    async def verify_secret(secret: str, peer: str) -> tuple[str, bool]:
        request = account_pb2.ListMerchantsRequest(limit=1)
        await secret_client.call(
            "AdminService.ListMerchants", request, (("api-key", secret),), peer
        )
        api_key = parse_key(secret)
        if api_key is None:
            raise RuntimeError("a key was taken that is none")
        return api_key.key_id, api_key.live

    config = ConsoleConfig(
        name="merchant",
        groups=_MERCHANT_GROUPS,
        verify_secret=count_failures(app, "merchant", verify_secret),
        build_metadata=lambda session: (("api-key", session.holder),),
        has_idempotency_keys=True,
        is_allowed_host=lambda _: True,
        read_shell=lambda session, _: shell.read_merchant_shell(app, session),
    )
    console = Console(
        app,
        config,
        ConsoleRpcClient(key_id_backend, _MERCHANT),
        _create_sessions(app, "console", key),
    )
    once = {
        ("POST", path): console.wrap_write(
            page,
            deduplicate=True,
            needs_fresh_sign_in=path in MERCHANT_FRESH_PATHS,
            confirm=MERCHANT_CONFIRMS.get(path),
        )
        for path, page in MERCHANT_WRITES_ONCE.items()
    }
    keyed = _build_routes(
        console,
        _MERCHANT_READS,
        _MERCHANT_SCRIPT_READS,
        {**MERCHANT_WRITES, **_MERCHANT_SHELL_WRITES},
        MERCHANT_FRESH_PATHS,
        confirms=MERCHANT_CONFIRMS,
    )
    return {**keyed, **once}


def build_operator_routes(
    app: ConsoleContext,
    backend: RpcBackend,
    token: str,
    key: bytes,
    is_allowed_host: Callable[[PlainRequest], bool],
) -> Routes:
    """Return the routes of the operator console; `is_allowed_host` as in `ConsoleConfig`."""
    calls = ConsoleRpcClient(backend, _OPERATOR)

    async def verify_secret(secret: str, peer: str) -> tuple[str, bool]:
        request = system_pb2.GetSystemStatusRequest()
        await calls.call(
            "OperatorService.GetSystemStatus", request, _build_bearer_metadata(secret), peer
        )
        return "operator", False

    alarm_counts = TtlCache[int](1, _ALARMS_AGE_US)

    async def count_alarms(session: ConsoleSession, peer: str) -> int:
        now_us = app.clock.now_us()
        count = alarm_counts.get(ROOT, now_us)
        if count is None:
            request = system_pb2.GetSystemStatusRequest()
            metadata = credential(session)
            count = count_open_conditions(
                await calls.call("OperatorService.GetSystemStatus", request, metadata, peer)
            )
            alarm_counts.put(ROOT, count, now_us)
        return count

    async def read_shell(session: ConsoleSession, peer: str) -> shell.Shell:
        try:
            alarms = await count_alarms(session, peer)
        except RefusedError:
            alarms = 0
        return await shell.read_operator_shell(app, alarms)

    def credential(_: ConsoleSession) -> Metadata:
        return (*_build_bearer_metadata(token), ("florin-channel", "console"))

    config = ConsoleConfig(
        name="operator",
        groups=_OPERATOR_GROUPS,
        verify_secret=count_failures(app, "operator", verify_secret),
        build_metadata=credential,
        has_idempotency_keys=False,
        is_allowed_host=is_allowed_host,
        read_shell=read_shell,
    )
    console = Console(app, config, calls, _create_sessions(app, "operator", key))
    return _build_routes(
        console,
        _OPERATOR_READS,
        _OPERATOR_SCRIPT_READS,
        OPERATOR_WRITES,
        OPERATOR_FRESH_PATHS,
        confirms=OPERATOR_CONFIRMS,
    )


def _build_bearer_metadata(token: str) -> Metadata:
    return (("authorization", f"Bearer {token}"),)


def _create_sessions(app: ConsoleContext, name: str, key: bytes) -> SessionManager:
    return SessionManager(name, key, app.clock, app.randbytes, app.links.base_url)


def _build_routes(
    console: Console,
    reads: Mapping[str, PageHandler],
    script_reads: Mapping[str, PageHandler],
    writes: Mapping[str, PageHandler],
    fresh_paths: Container[str],
    *,
    confirms: Mapping[str, Confirmer],
) -> Routes:
    return {
        **login.build_routes(console),
        **build_read_routes({path: console.wrap_read(page) for path, page in reads.items()}),
        **{("GET", path): console.wrap_script_read(script_reads[path]) for path in script_reads},
        **{
            ("POST", path): console.wrap_write(
                writes[path],
                needs_fresh_sign_in=path in fresh_paths,
                confirm=confirms.get(path),
            )
            for path in writes
        },
    }
