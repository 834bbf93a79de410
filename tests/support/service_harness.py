"""One service with a stopped clock, and every way in which tests call it.

Modules share a harness where their tests do not touch each other's payments.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import grpc
from florin_server.accounts.service import keys
from florin_server.accounts.store import keys as key_store
from florin_server.accounts.store import merchants
from florin_server.app.service import FlorinService
from florin_server.base.clock import TestClock
from florin_server.base.topics import Topic
from florin_server.db.engine.query import StoreUnavailable
from florin_server.db.tables.tables import METADATA
from florin_server.domain.accounts.account import Partner, WalletApp
from florin_server.domain.accounts.credentials import ApiKeyKind, generate_key
from florin_server.domain.payments.payment import Merchant
from florin_server.domain.versions import NEWEST_STABLE_VERSION
from florin_server.money.payments.store import history
from multidict import CIMultiDictProxy
from yarl import URL

from tests.support import postgres
from tests.support.api import GrpcApi, RestApi
from tests.support.chain import ChainClient
from tests.support.chains import EmbeddedChains, EvmChains
from tests.support.service import run_service
from tests.support.until import PATIENCE_S, advance, wait_until
from tests.support.wallet import EvmTestWallet

START_S = 1_800_000_000
PAY_URL = "https://pay.florin.example"
ORDER = {"amount": {"unit": "iso4217/USD", "value": "1250"}, "referenceId": "order-1001"}
# headers that select a version of the API; without either, the first one applies
SPEC = {"Pay-Version": "2026-02-18"}
DEPLOYED = {"WCP-Version": "2026-02-18"}

CREATE = "/v1/payments"


@dataclass(frozen=True)
class ServiceResponse:
    status: int
    headers: CIMultiDictProxy[str]
    text: str

    @property
    def body(self) -> Any:
        return json.loads(self.text)

    @property
    def refusal(self) -> tuple[int, str]:
        """Return the HTTP status and the code of a refusal."""
        return self.status, self.body["code"]


@dataclass
class ServiceHarness:
    service: FlorinService
    clock: TestClock
    env: dict[str, str]
    session: aiohttp.ClientSession
    channel: grpc.aio.Channel
    rest: RestApi
    grpc: GrpcApi
    chain: ChainClient
    has_simulated_chain: bool = False  # a test stored payments that no service would

    @property
    def now(self) -> int:
        return self.clock.now_us() // 1_000_000

    async def ask(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        body: Any = None,
        *,
        data: Any = None,
    ) -> ServiceResponse:
        """Send one request; `body` is sent as JSON, `data` as it is. The path is sent undecoded."""
        if body is not None:
            data = json.dumps(body)
        url = URL(self.rest.base + path, encoded=True)
        async with self.session.request(
            method, url, data=data, headers={"Content-Type": "application/json", **(headers or {})}
        ) as answer:
            return ServiceResponse(answer.status, answer.headers, await answer.text())

    async def send_raw(self, request: bytes) -> tuple[int, dict[str, str], Any]:
        """Send a request in bytes that no client would send; return its answer."""
        address = urlsplit(self.rest.base)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        try:
            writer.write(request)
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in head[1:] if line)}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            return int(head[0].split()[1]), headers, json.loads(body) if body else None
        finally:
            writer.close()
            await writer.wait_closed()

    def rows(self) -> dict[str, int]:
        """Return the number of rows of each table, without those that workers write repeatedly."""
        repeated = {"icon", "installation", "reported_condition", "watched_tx"}
        repeated |= {"api_key_use", "deposit_cursor", "node_hour", "webhook_hour"}
        tables = sorted(METADATA.tables.keys() - repeated)
        counts = ", ".join(f'(SELECT count(*) FROM "{table}")' for table in tables)
        return dict(zip(tables, *self.select(f"SELECT {counts}"), strict=True))

    def select(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return rows from the store on disk."""
        return postgres.select(self.service.home.path, query, *values)

    async def offer(
        self,
        wallet: EvmTestWallet | None = None,
        *,
        tenant: PartnerTenant | None = None,
        **order: Any,
    ) -> PaymentOffer:
        """Create a payment of the demo merchant, or of a tenant, and its one option."""
        wallet = wallet or EvmTestWallet()
        headers = tenant.headers if tenant else self.rest.merchant
        created = await self.rest.call("POST", CREATE, headers, {**ORDER, **order})
        (option,) = (await self.rest.options(created["paymentId"], [wallet.account]))["options"]
        return PaymentOffer(
            created["paymentId"], option["id"], wallet.execute_all(option), wallet, option
        )

    async def confirm(self, offer: PaymentOffer) -> dict[str, Any]:
        return await self.rest.confirm(offer.payment_id, offer.option_id, offer.outputs)

    async def wait_final(self, payment_id: str) -> dict[str, Any]:
        """Return the last state of a payment, read from its stream."""
        # a dead worker ends no payment: then the test fails and does not hang
        async with asyncio.timeout(2 * PATIENCE_S):
            states = [state async for state in self.rest.watch(payment_id)]
        return states[-1]

    async def wait_ended(self, payment_id: str) -> dict[str, Any]:
        """Return the last state of a payment while time advances, as workers poll at intervals."""
        final = asyncio.create_task(self.wait_final(payment_id))

        async def passing() -> None:
            # a page and its wallet need real time, and the payment expires by this clock
            is_awaited = (await self.rest.status(payment_id))["status"] == "requires_action"
            await advance(self.clock, 1 if is_awaited else 10)

        await wait_until(final.done, meanwhile=passing)
        return final.result()

    async def wait_refunded(
        self, payment_id: str, headers: Mapping[str, str] | None = None, *, every: bool = False
    ) -> dict[str, Any]:
        """Return the newest refund of a payment once it (with `every`: all of them) is final."""
        path, value = f"/v1/payments/{payment_id}", headers or self.rest.merchant

        async def completed() -> dict[str, Any] | None:
            detail = await self.rest.call("GET", path, value)
            refund: dict[str, Any] = detail["refund"]
            awaited = detail["refunds"] if every else [refund]
            return refund if all("completedAt" in item for item in awaited) else None

        done: dict[str, Any] = await wait_until(completed)
        return done

    async def wait_lapsed(self, payment_id: str, seconds: float = 1300) -> dict[str, Any]:
        """Let the authorization of a confirmed payment lapse; return the payment's last state."""
        self.clock.advance(seconds)
        await self.chain.mine()
        return await self.wait_ended(payment_id)

    # accounts

    async def tenant(
        self, *, live: bool = False, pin: str = NEWEST_STABLE_VERSION
    ) -> PartnerTenant:
        """Create a partner with a merchant and a key of every scope."""
        app = self.service.app
        number = app.randbytes(8).hex()
        partner = Partner(f"prtn_{number}", "Tenant", pin, "active", self.clock.now_us())
        await app.store.write(merchants.put_partner(partner))
        merchant = await self._merchant(partner.id, live=live)
        key_id, secret = await self.key(partner.id, live=live)
        return PartnerTenant(self, partner, merchant, key_id, secret)

    async def merchant(self, tenant: PartnerTenant, **changes: Any) -> Merchant:
        """Create another merchant of a tenant, in its mode unless the changes set one."""
        return await self._merchant(tenant.partner.id, **{"live": tenant.merchant.live, **changes})

    async def _merchant(self, partner_id: str, **changes: Any) -> Merchant:
        app = self.service.app
        merchant = Merchant(
            id=f"mrch_{app.randbytes(8).hex()}",
            partner_id=partner_id,
            name="Tea House",
            email="tea@house.example",
            icon_url=None,
            status="active",
            live=False,
            created_at_us=self.clock.now_us(),
        )
        merchant = replace(merchant, **changes)
        await app.store.write(merchants.put_merchant(merchant))
        return merchant

    async def key(
        self, partner_id: str | None, *, live: bool = False, scopes: tuple[str, ...] = ()
    ) -> tuple[str, str]:
        """Return the id and the secret of a new key; a wallet key without a partner."""
        key, secret = await keys.create(
            self.service.app,
            self.service.secrets.pepper,
            kind=ApiKeyKind.PARTNER if partner_id else ApiKeyKind.WALLET,
            live=live,
            partner_id=partner_id,
            scopes=frozenset(scopes),
        )
        return key.key_id, secret

    async def revoke(self, key_id: str) -> None:
        await keys.revoke(self.service.app, key_id)

    def unstored_key(self) -> str:
        """Return a well-formed key that was never issued."""
        return generate_key(
            ApiKeyKind.PARTNER, live=False, randbytes=self.service.app.randbytes
        ).secret

    async def wallet_app(
        self,
        *,
        live: bool = False,
        pin: str = NEWEST_STABLE_VERSION,
        revoked: bool = False,
        icon: str | None = None,
    ) -> dict[str, str]:
        """Return the headers of a new wallet registration."""
        app_id = "app_" + self.service.app.randbytes(8).hex()
        now_us = self.clock.now_us()
        registered = WalletApp(
            app_id, "Purse", icon, live, pin, now_us, now_us if revoked else None
        )
        await self.service.app.store.write(key_store.put_app(registered))
        return {"App-Id": app_id, "Client-Id": "client"}


@dataclass
class PartnerTenant:
    service: ServiceHarness
    partner: Partner
    merchant: Merchant
    key_id: str
    secret: str

    @property
    def headers(self) -> dict[str, str]:
        return {"Api-Key": self.secret, "Merchant-Id": self.merchant.id}

    async def change_partner(self, *, is_published: bool = True, **changes: Any) -> None:
        """Change the stored partner; without `is_published`, as another process would."""
        self.partner = replace(self.partner, **changes)
        await self.service.service.app.store.write(merchants.put_partner(self.partner))
        if is_published:
            self.service.service.app.notifier.publish(Topic.ACCOUNTS)

    async def change_merchant(self, **changes: Any) -> None:
        self.merchant = replace(self.merchant, **changes)
        await self.service.service.app.store.write(merchants.put_merchant(self.merchant))
        self.service.service.app.notifier.publish(Topic.ACCOUNTS)


@dataclass(frozen=True)
class PaymentOffer:
    payment_id: str
    option_id: str
    outputs: list[str]
    wallet: EvmTestWallet
    option: dict[str, Any]


@asynccontextmanager
async def open_service(
    home: Path, *, evm: EvmChains | None = None, **settings: Any
) -> AsyncIterator[ServiceHarness]:
    evm = evm or EmbeddedChains()
    clock = evm.clock(START_S * 1_000_000)
    settings = {"pay_url": PAY_URL, **settings}
    async with (
        run_service(home, clock=clock, evm=evm, **settings) as service,
        aiohttp.ClientSession() as session,
    ):
        env = service.home.read_demo_env()
        async with grpc.aio.insecure_channel(env["FLORIN_GRPC_TARGET"]) as channel:
            desk = ServiceHarness(
                service=service,
                clock=clock,
                env=env,
                session=session,
                channel=channel,
                rest=RestApi(session, env["FLORIN_BASE_URL"], env),
                grpc=GrpcApi(channel, env),
                chain=evm.open_client(session, env),
            )
            yield desk
        # in every test, payments moved as the state table says
        if not desk.has_simulated_chain:
            with suppress(StoreUnavailable):
                assert await service.app.store.scan(history.check()) == []


async def call_refused(
    desk: ServiceHarness, method: str, path: str, headers: Any, **sent: Any
) -> ServiceResponse:
    """Return a refusal that changed nothing on disk."""
    before = desk.rows()
    answer = await desk.ask(method, path, headers, **sent)
    assert answer.status >= 400, answer.text
    assert desk.rows() == before
    assert set(answer.body) <= {"code", "message", "issues", "details", "requestId"}
    assert answer.body["message"]
    return answer


async def create_payment(desk: ServiceHarness, body: Any) -> dict[str, Any]:
    """Create a payment; return its detail."""
    answer = await desk.ask("POST", CREATE, desk.rest.merchant, body)
    assert answer.status == 201, answer.text
    return await desk.rest.detail(answer.body["paymentId"])
