"""One service with a clock that stands still, and everything that tests ask it with.

Modules share a desk where their tests leave each other's payments alone.
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
from florin_server.boot.service import Service
from florin_server.clock import TestClock
from florin_server.domain.accounts.account import Partner, WalletApp
from florin_server.domain.accounts.credentials import KeyKind, new_key
from florin_server.domain.payments.payment import Merchant
from florin_server.domain.versions import NEWEST_STABLE
from florin_server.flows.accounts import keys
from florin_server.store.accounts import keys as key_store
from florin_server.store.accounts import merchants
from florin_server.store.engine.query import StoreUnavailable
from florin_server.store.payments import history
from florin_server.store.tables.tables import METADATA
from multidict import CIMultiDictProxy
from yarl import URL

from tests.support import postgres
from tests.support.api import GrpcApi, RestApi
from tests.support.chain import Chain
from tests.support.chains import EvmChains, OwnChain
from tests.support.service import running
from tests.support.until import until
from tests.support.wallet import Wallet

START_S = 1_800_000_000
PAY_URL = "https://pay.florin.example"
ORDER = {"amount": {"unit": "iso4217/USD", "value": "1250"}, "referenceId": "order-1001"}
# the two ways to ask; neither header is the first one too
SPEC = {"Pay-Version": "2026-02-18"}
DEPLOYED = {"WCP-Version": "2026-02-18"}

CREATE = "/v1/payments"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: CIMultiDictProxy[str]
    text: str

    @property
    def body(self) -> Any:
        return json.loads(self.text)

    @property
    def told(self) -> tuple[int, str]:
        """What a refusal comes down to."""
        return self.status, self.body["code"]


@dataclass
class Desk:
    service: Service
    clock: TestClock
    env: dict[str, str]
    session: aiohttp.ClientSession
    channel: grpc.aio.Channel
    rest: RestApi
    grpc: GrpcApi
    chain: Chain
    made_up: bool = False  # a test stored payments that no service would

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
    ) -> Answer:
        """One request; `body` is sent as JSON, `data` as it is. The path is sent undecoded."""
        if body is not None:
            data = json.dumps(body)
        url = URL(self.rest.base + path, encoded=True)
        async with self.session.request(
            method, url, data=data, headers={"Content-Type": "application/json", **(headers or {})}
        ) as answer:
            return Answer(answer.status, answer.headers, await answer.text())

    async def raw(self, request: bytes) -> tuple[int, dict[str, str], Any]:
        """A request in bytes that no client would send, and its answer."""
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
        """How many rows each table has on disk, but for what workers note now and then."""
        tables = sorted(
            METADATA.tables.keys() - {"icon", "installation", "reported_condition", "watched_tx"}
        )
        counts = ", ".join(f'(SELECT count(*) FROM "{table}")' for table in tables)
        return dict(zip(tables, *self.select(f"SELECT {counts}"), strict=True))

    def select(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """What is on disk."""
        return postgres.select(self.service.home.path, query, *values)

    async def offer(
        self, wallet: Wallet | None = None, *, tenant: Tenant | None = None, **order: Any
    ) -> Offer:
        """A payment of the demo merchant, or of a tenant, and its one option."""
        wallet = wallet or Wallet()
        headers = tenant.headers if tenant else self.rest.merchant
        created = await self.rest.call("POST", CREATE, headers, {**ORDER, **order})
        (option,) = (await self.rest.options(created["paymentId"], [wallet.account]))["options"]
        return Offer(created["paymentId"], option["id"], wallet.execute_all(option), wallet, option)

    async def confirm(self, offer: Offer) -> dict[str, Any]:
        return await self.rest.confirm(offer.payment_id, offer.option_id, offer.outputs)

    async def final(self, payment_id: str) -> dict[str, Any]:
        """The last state of a payment, as its stream tells it."""
        # a worker that is dead ends no payment: the test fails then, and does not hang
        async with asyncio.timeout(60):
            states = [state async for state in self.rest.watch(payment_id)]
        return states[-1]

    async def ended(self, payment_id: str) -> dict[str, Any]:
        """The last state of a payment while time goes on: workers look again every few seconds."""
        final = asyncio.create_task(self.final(payment_id))

        async def passing() -> None:
            self.clock.advance(10)

        await until(final.done, meanwhile=passing)
        return final.result()

    async def refunded(
        self, payment_id: str, headers: Mapping[str, str] | None = None, *, every: bool = False
    ) -> dict[str, Any]:
        """The newest refund of a payment once it (with `every`: all of them) is over."""
        path, given = f"/v1/payments/{payment_id}", headers or self.rest.merchant

        async def completed() -> dict[str, Any] | None:
            detail = await self.rest.call("GET", path, given)
            refund: dict[str, Any] = detail["refund"]
            awaited = detail["refunds"] if every else [refund]
            return refund if all("completedAt" in one for one in awaited) else None

        done: dict[str, Any] = await until(completed)
        return done

    async def lapse(self, payment_id: str, seconds: float = 1300) -> dict[str, Any]:
        """The end of a confirmed payment whose money never moves: its authorization lapses."""
        self.clock.advance(seconds)
        await self.chain.mine()
        return await self.ended(payment_id)

    # accounts

    async def tenant(self, *, live: bool = False, pin: str = NEWEST_STABLE) -> Tenant:
        """A partner with a merchant and a key of every right."""
        app = self.service.app
        number = app.randbytes(8).hex()
        partner = Partner(f"prtn_{number}", "Tenant", pin, "active", self.clock.now_us())
        await app.store.write(merchants.put_partner(partner))
        merchant = await self._merchant(partner.id, live=live)
        key_id, secret = await self.key(partner.id, live=live)
        return Tenant(self, partner, merchant, key_id, secret)

    async def merchant(self, tenant: Tenant, **changes: Any) -> Merchant:
        """One more merchant of a tenant, of its mode unless that is among the changes."""
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
        """The id and the secret of a new key; a wallet key without a partner."""
        made, secret = await keys.create(
            self.service.app,
            self.service.secrets.pepper,
            kind=KeyKind.PARTNER if partner_id else KeyKind.WALLET,
            live=live,
            partner_id=partner_id,
            scopes=frozenset(scopes),
        )
        return made.key_id, secret

    async def revoke(self, key_id: str) -> None:
        await keys.revoke(self.service.app, key_id)

    def unstored_key(self) -> str:
        """A well-formed key that was never given out."""
        return new_key(KeyKind.PARTNER, live=False, randbytes=self.service.app.randbytes).secret

    async def wallet_app(
        self,
        *,
        live: bool = False,
        pin: str = NEWEST_STABLE,
        revoked: bool = False,
        icon: str | None = None,
    ) -> dict[str, str]:
        """The headers of a new wallet registration."""
        app_id = "app_" + self.service.app.randbytes(8).hex()
        now_us = self.clock.now_us()
        registered = WalletApp(
            app_id, "Purse", icon, live, pin, now_us, now_us if revoked else None
        )
        await self.service.app.store.write(key_store.put_app(registered))
        return {"App-Id": app_id, "Client-Id": "client"}


@dataclass
class Tenant:
    desk: Desk
    partner: Partner
    merchant: Merchant
    key_id: str
    secret: str

    @property
    def headers(self) -> dict[str, str]:
        return {"Api-Key": self.secret, "Merchant-Id": self.merchant.id}

    async def change_partner(self, **changes: Any) -> None:
        self.partner = replace(self.partner, **changes)
        await self.desk.service.app.store.write(merchants.put_partner(self.partner))
        self.desk.service.app.accounts.changed()

    async def change_merchant(self, **changes: Any) -> None:
        self.merchant = replace(self.merchant, **changes)
        await self.desk.service.app.store.write(merchants.put_merchant(self.merchant))
        self.desk.service.app.accounts.changed()


@dataclass(frozen=True)
class Offer:
    payment_id: str
    option_id: str
    outputs: list[str]
    wallet: Wallet
    option: dict[str, Any]


@asynccontextmanager
async def opened(
    home: Path, *, evm: EvmChains | None = None, **settings: Any
) -> AsyncIterator[Desk]:
    evm = evm or OwnChain()
    clock = evm.clock(START_S * 1_000_000)
    settings = {"pay_url": PAY_URL, **settings}
    async with (
        running(home, clock=clock, evm=evm, **settings) as service,
        aiohttp.ClientSession() as session,
    ):
        env = service.home.read_demo_env()
        async with grpc.aio.insecure_channel(env["FLORIN_GRPC_TARGET"]) as channel:
            desk = Desk(
                service=service,
                clock=clock,
                env=env,
                session=session,
                channel=channel,
                rest=RestApi(session, env["FLORIN_BASE_URL"], env),
                grpc=GrpcApi(channel, env),
                chain=evm.asked(session, env),
            )
            yield desk
        # whatever a test did, payments moved as the state table says
        if not desk.made_up:
            with suppress(StoreUnavailable):
                assert await service.app.store.survey(history.check()) == []


async def refused(desk: Desk, method: str, path: str, headers: Any, **sent: Any) -> Answer:
    """A refusal that left nothing behind."""
    before = desk.rows()
    answer = await desk.ask(method, path, headers, **sent)
    assert answer.status >= 400, answer.text
    assert desk.rows() == before
    assert set(answer.body) <= {"code", "message", "issues", "details", "requestId"}
    assert answer.body["message"]
    return answer


async def created(desk: Desk, body: Any) -> dict[str, Any]:
    """The detail of a payment that could be created."""
    answer = await desk.ask("POST", CREATE, desk.rest.merchant, body)
    assert answer.status == 201, answer.text
    return await desk.rest.detail(answer.body["paymentId"])
