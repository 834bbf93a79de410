"""Every setting, its default and its reason; read from florin.toml and FLORIN_* variables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    IPvAnyNetwork,
    SecretStr,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from florin_server import settings_file
from florin_server.domain.caip import canonical_asset
from florin_server.domain.screening.blocklist import blocked_account
from florin_server.pricing.settings import AssetKey, Currency, Price, PriceSettings
from florin_server.rails.evm.settings import EvmChain
from florin_server.rails.networks import chain_files
from florin_server.rails.solana.settings import SolanaChain


class EmbeddedChain(BaseModel):
    """The EVM chain that Florin brings along, for demos, tests and test mode."""

    model_config = ConfigDict(frozen=True)

    enabled: bool = Field(default=True, description="`false` leaves it out where test money works")
    rpc_port: int = Field(
        default=0, ge=0, le=65535, description="0 takes any free port, then keeps it"
    )
    block_interval_s: float = Field(
        default=0.5, ge=0, description="between two blocks; 0 seals one for each transaction"
    )
    confirmations: int = Field(
        default=2, ge=1, description="final then; enough to see `processing`"
    )


class EmbeddedSolana(BaseModel):
    """The Solana chain that Florin brings along, for the same."""

    model_config = ConfigDict(frozen=True)

    enabled: bool = Field(default=True, description="`false` leaves it out where test money works")
    rpc_port: int = Field(
        default=0, ge=0, le=65535, description="0 takes any free port, then keeps it"
    )
    slot_s: float = Field(
        default=0.4, ge=0, description="between two slots; 0 gives each transaction its own"
    )
    finalized_slots: int = Field(
        default=4, ge=1, description="on top of a final one: 32 on Solana, fewer for tests"
    )
    durable_nonces: int = Field(
        default=0, ge=0, le=100, description="payments whose buyers may sign slowly, at a time"
    )
    accounts_a_day: int = Field(
        default=50, ge=0, description="token accounts opened for receivers, however it comes"
    )
    accounts_a_merchant_day: int = Field(
        default=10, ge=0, description="of these for one merchant: more than it has tokens"
    )


# a budget below what one payment may use would let none through
_GAS_LEAST = 1_500_000


class LimitSettings(BaseModel):
    """How much is taken from whom; 0 a minute, or 0 held answers, turns a limit off.

    A burst is what may come at once, before the rate counts.
    """

    model_config = ConfigDict(frozen=True)

    key_per_minute: int = Field(
        default=12_000, ge=0, description="an API key: 200 calls a second are a very large shop"
    )
    key_burst: int = Field(default=600, ge=1, description="3 s of them, e.g. after a pause")
    app_per_minute: int = Field(
        default=1_200, ge=0, description="App-Id with Client-Id: 20 polls a second of one device"
    )
    app_burst: int = Field(default=120, ge=1, description="6 s of them")
    address_per_minute: int = Field(
        default=3_000,
        ge=0,
        description="App-Ids from one address (IPv6: /64), whatever their Client-Id: a caller "
        "writes what it likes into that one; fifty buyers behind one router, a poll a second each",
    )
    address_burst: int = Field(default=200, ge=1, description="4 s of them")
    app_total_per_minute: int = Field(
        default=60_000,
        ge=0,
        description="one App-Id, which is public, from everywhere: 1,000 calls a second are more "
        "than one process answers beside others",
    )
    app_total_burst: int = Field(default=6_000, ge=1, description="6 s of them")
    payment_per_minute: int = Field(
        default=20,
        ge=0,
        description="new confirms, cancels, and forms, of one payment by one caller (a key, or an "
        "address): each may ask a chain; no buyer needs more. Signed ones that may be right are "
        "counted by the account that signed, apart from all others",
    )
    payment_burst: int = Field(default=20, ge=1, description="a wallet that tries them in a row")
    payment_total_per_minute: int = Field(
        default=200,
        ge=0,
        description="confirms of one payment by anybody that only a chain can judge: ten callers",
    )
    payment_total_burst: int = Field(default=200, ge=1, description="a minute of them")
    options_per_minute: int = Field(
        default=60,
        ge=0,
        description="how often one caller asks for the options of one payment: each asks chains; "
        "a wallet that looks each second",
    )
    options_burst: int = Field(default=60, ge=1, description="a buyer who tries accounts in a row")
    failure_per_minute: int = Field(
        default=60, ge=0, description="401 answers for one address: guessing is hopeless, and quiet"
    )
    failure_burst: int = Field(default=60, ge=1, description="a deployment with a mistyped key")
    page_per_minute: int = Field(
        default=600, ge=0, description="buyer pages for one address: many buyers may share it"
    )
    page_burst: int = Field(default=100, ge=1, description="a queue at a till behind one address")
    guard_per_minute: int = Field(
        default=60,
        ge=0,
        description="new idempotency keys of App-Ids from one address: each is kept for days",
    )
    guard_burst: int = Field(default=60, ge=1, description="every step of ten payments at once")
    held_per_credential: int = Field(
        default=1_000, ge=0, description="long polls and streams at a time; each holds memory"
    )
    held_per_payment: int = Field(
        default=50,
        ge=0,
        description="the same of one payment by its merchant: nobody shows it on more screens",
    )
    held_per_payment_caller: int = Field(
        default=20,
        ge=0,
        description="the same of one payment by one wallet's caller (a key, or an address; half "
        "of them for one Client-Id), apart from the merchant's: a buyer has one or two open",
    )
    held_per_payment_total: int = Field(
        default=500, ge=0, description="the same by all wallets: no few callers take it from others"
    )
    held_per_address: int = Field(
        default=200,
        ge=0,
        description="the same of one address, over all payments, Client-Ids and health streams",
    )
    held_per_app: int = Field(
        default=10_000, ge=0, description="the same of one App-Id: 200 MB, at 20 kB each"
    )


class FailedGasSettings(BaseModel):
    """Units of gas that relayers may lose on one EVM chain in an hour of the clock.

    A payment by a contract account may use 300,000 to 600,000, and 530,000 more if it creates the
    account. No more of them is on its way than fits into what is left.
    """

    model_config = ConfigDict(frozen=True)

    payer: int = Field(
        default=2_000_000,
        ge=_GAS_LEAST,
        description="failed payments of one payer: one that fails three times, and some bad luck; "
        "nothing of that payer is sent for the rest of the hour",
    )
    app: int = Field(
        default=15_000_000,
        ge=_GAS_LEAST,
        description="failed payments that one wallet app or key confirmed; above, its payments by "
        "contract accounts are paused",
    )
    chain: int = Field(
        default=30_000_000,
        ge=_GAS_LEAST,
        description="all failed payments: one full block, 0.3 ether where gas costs 10 gwei; "
        "above, all payments by contract accounts are paused, those by plain keys never",
    )
    opened_app: int = Field(
        default=30_000_000,
        ge=_GAS_LEAST,
        description="paid payments of one app that create their accounts: some 70, and 400,000 "
        "each; a stranger may pay itself a cent from ever new ones",
    )
    opened_chain: int = Field(
        default=60_000_000, ge=_GAS_LEAST, description="the same for all apps together"
    )


class CaptureSettings(BaseModel):
    """Whose data is asked for before a payment, and how long it is kept.

    Data counts for its payment if the wallet that told it, by a form or along with its calls,
    confirms the payment; for later ones of the same account and wallet app only if the account
    signed for it, which it does not where its wallet sends the transaction by itself.
    """

    model_config = ConfigDict(frozen=True)

    enabled: bool = Field(default=False, description="most merchants need no data about buyers")
    from_amount: dict[str, Annotated[int, Field(ge=0)]] = Field(
        default={},
        description="minor units of a currency (ISO 4217), or of an asset (CAIP-19) in which a "
        "payment may be asked for, from which on data is needed; for others it always is",
    )
    modes: tuple[Literal["live", "test"], ...] = Field(
        default=("live", "test"), description="payments whose buyers are asked"
    )
    assets: tuple[Annotated[str, AfterValidator(canonical_asset)], ...] = Field(
        default=(), description="CAIP-19 of what is paid with; empty: all"
    )
    retention_days: int = Field(
        default=5 * 365, ge=1, description="what anti-money-laundering rules commonly ask for"
    )
    frame_origins: tuple[Annotated[str, Field(pattern=r"^https?://[^\s;,'\"/]+$")], ...] = Field(
        default=(), description="sites of web wallets that may show the form in a frame"
    )


class AndroidApp(BaseModel):
    """An Android app, as Digital Asset Links names it."""

    model_config = ConfigDict(frozen=True)

    package: str = Field(
        pattern=r"^[A-Za-z][A-Za-z0-9_]*(\.[A-Za-z][A-Za-z0-9_]*)+$",
        max_length=255,
        description="its application id, as in the store",
    )
    fingerprints: tuple[Annotated[str, Field(pattern=r"^[0-9A-F]{2}(:[0-9A-F]{2}){31}$")], ...] = (
        Field(min_length=1, max_length=10, description="SHA-256 of the certificates that sign it")
    )


class AppLinkSettings(BaseModel):
    """Wallets that phones may open payment links in, instead of a browser.

    Phones read them at `/.well-known/` of the pay host.
    """

    model_config = ConfigDict(frozen=True)

    ios: tuple[Annotated[str, Field(pattern=r"^[A-Z0-9]{10}\.[A-Za-z0-9.-]{1,155}$")], ...] = Field(
        default=(), max_length=100, description="team id and bundle id, with a dot between"
    )
    android: tuple[AndroidApp, ...] = Field(
        default=(), max_length=100, description="Android apps, a table for each"
    )


class Settings(BaseSettings):
    """What an operator can choose."""

    model_config = SettingsConfigDict(
        env_prefix="FLORIN_", env_nested_delimiter="__", frozen=True, extra="ignore"
    )
    home: Path = Field(
        default=Path(".florin"), description="state folder: the store, keys, chains that were added"
    )
    host: str = Field(
        default="127.0.0.1", description="address to listen on; others need TLS in front"
    )
    http_port: int = Field(default=8080, ge=0, le=65535, description="REST; 0 takes any free port")
    grpc_port: int = Field(default=50051, ge=0, le=65535, description="gRPC; 0 takes any free port")
    operator_port: int = Field(
        default=0,
        ge=0,
        le=65535,
        description="gRPC for the operator's commands, on 127.0.0.1 only; 0 takes any free port, "
        "which the commands find by themselves",
    )
    metrics_port: int | None = Field(
        default=None,
        ge=0,
        le=65535,
        description="metrics for Prometheus, on 127.0.0.1 only; 0 takes any free port, unset: none",
    )
    pay_url: str = Field(default="", description="base of payment links; empty: the REST address")
    insecure_bind: bool = Field(
        default=False, description="allow plain text on an address that others can reach"
    )

    request_head_s: float = Field(
        default=5.0, gt=0, description="a slower head is answered 408: it holds a connection"
    )
    request_body_s: float = Field(default=5.0, gt=0, description="a slower body is answered 408")
    trusted_proxies: tuple[IPvAnyNetwork, ...] = Field(
        default=(),
        description="networks of the proxies in front of REST or gRPC, whose X-Forwarded-For tells "
        "who calls; empty: nobody is believed, and all that comes through a proxy is one address",
    )
    gateway_token: SecretStr | None = Field(
        default=None,
        description="equal on both sides: lets `florin gateway` tell the service who calls it. "
        "Without it a gateway that shares the state folder uses a secret from there, and all "
        "callers of others count as one address",
    )
    gateway_token_file: Path | None = Field(default=None, description="holds that token")

    sandbox_clock: bool = Field(
        default=True,
        description="test keys may move the time on, if every chain is embedded; it is everybody's",
    )
    keystore_password: SecretStr | None = Field(
        default=None, description="opens every keystore; better in a file"
    )
    keystore_password_file: Path | None = Field(
        default=None, description="holds that password, as secret stores hand it over"
    )

    demo: bool | None = Field(
        default=None,
        description="embedded chains and the test accounts of demo.env; unless it is said they are "
        "there until a live chain is: their keys lie in a file, and their money is made of nothing",
    )
    embedded: EmbeddedChain = Field(default=EmbeddedChain(), description="the EVM chain for tests")
    embedded_solana: EmbeddedSolana = Field(
        default=EmbeddedSolana(), description="the Solana chain for tests"
    )
    chains: tuple[EvmChain, ...] = Field(
        default=(), description="EVM chains besides those that `florin chain add` wrote down"
    )
    solana_chains: tuple[SolanaChain, ...] = Field(
        default=(), description="Solana clusters, likewise"
    )

    currencies: tuple[str, ...] = Field(
        default=("USD", "EUR", "GBP"),
        description="ISO 4217 codes in which payments may be asked for",
    )
    amount_min: int = Field(default=1, ge=1, description="the least that may be asked for")
    rates: dict[AssetKey, dict[Currency, Price]] = Field(
        default={},
        description="what one whole unit costs of an asset (CAIP-19) without a peg, by currency",
    )
    prices: PriceSettings = Field(
        default=PriceSettings(), description="sources that are asked what coins cost"
    )
    quote_s: int = Field(
        default=300,
        ge=1,
        description="how long the price of an option holds that depends on a rate: a buyer needs "
        "time to decide, and a rate changes",
    )
    payment_ttl_s: int = Field(
        default=900,
        ge=1,
        description="how long a payment can be confirmed that was made without a time",
    )
    payment_ttl_max_s: int = Field(
        default=30 * 86400, description="the longest that may be asked for: no buyer waits longer"
    )
    idempotency_ttl_s: int = Field(
        default=7 * 86400,
        ge=86400,
        description="how long the answer to an idempotency key is kept; clients retry for hours",
    )
    fee_fixed: int = Field(
        default=0, ge=0, description="what you keep of each payment, besides the share"
    )
    fee_basis_points: int = Field(
        default=0,
        ge=0,
        le=10_000,
        description="the share that you keep of each payment, rounded up",
    )

    refund_credit: dict[AssetKey, Annotated[int, Field(ge=0)]] = Field(
        default={},
        description="minor units of an asset (CAIP-19) that each merchant may owe for refunds of "
        "live payments; without it a merchant that is settled to its own wallet could pay itself "
        "and refund itself out of the treasury",
    )

    limits: LimitSettings = Field(
        default=LimitSettings(), description="how much is taken from one caller"
    )
    failed_gas: FailedGasSettings = Field(
        default=FailedGasSettings(), description="gas that failed payments may cost"
    )
    capture: CaptureSettings = Field(
        default=CaptureSettings(), description="what buyers are asked about themselves"
    )
    app_links: AppLinkSettings = Field(
        default=AppLinkSettings(), description="wallet apps that open payment links"
    )
    blocked_accounts: tuple[Annotated[str, AfterValidator(blocked_account)], ...] = Field(
        default=(),
        description="accounts that are not served: CAIP-10, or bare EVM addresses; what "
        "they pay past Florin waits for your verdict: florin payments held",
    )
    screening_age_max_days: int = Field(
        default=30, ge=1, description="older screening lists are told: public ones change weekly"
    )
    screening_required: bool = Field(
        default=False,
        description="live payments are offered and confirmed only while every list is young enough",
    )
    accounts_max: int = Field(default=256, description="accounts that one options call reads")
    options_max: int = Field(default=100, description="options that one answer holds")
    options_per_caller: int = Field(
        default=200,
        ge=10,
        description="options of one payment that are kept for one caller (a key, or an address): "
        "two full answers; they are kept for good, as late money is told by them",
    )
    options_per_payment: int = Field(
        default=4_000,
        ge=100,
        description="the same for all callers, about 10 MB; a new caller gets a tenth of its share "
        "once half of them are used, so that a few callers do not leave others without",
    )
    discovery_s: float = Field(default=3.0, description="a chain that takes longer is left out")
    key_cache_s: float = Field(default=5.0, description="a revoked key works no longer than this")
    books_check_s: float = Field(
        default=300.0, gt=0, description="how often the books are compared with every chain"
    )
    settle_batch: int = Field(
        default=50, ge=1, le=50, description="in one transaction: they share its cost"
    )
    shutdown_s: float = Field(default=5.0, description="what open calls get to finish")

    @model_validator(mode="before")
    @classmethod
    def _added(cls, data: dict[str, Any]) -> dict[str, Any]:
        """The chains that `florin chain add` wrote into the state folder count like named ones."""
        added = chain_files.read_all(Path(data.get("home", cls.model_fields["home"].default)))
        kinds = {"chains": EvmChain, "solana_chains": SolanaChain}
        return data | {
            name: [*data.get(name, ()), *(one for one in added.values() if isinstance(one, kind))]
            for name, kind in kinds.items()
            # what is no list is told with all that is wrong
            if isinstance(data.get(name, ()), list | tuple)
        }

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003  (given by position)
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments win over the environment, the environment over the file."""
        home = (env_settings() | init_settings()).get("home")
        usual = cls.model_fields["home"].default
        said = settings_file.read(None if home is None else Path(home), usual)
        return init_settings, env_settings, InitSettingsSource(settings_cls, said)

    @property
    def has_demo(self) -> bool:
        """True if embedded chains may run, and test accounts work."""
        if self.demo is not None:
            return self.demo
        return not self.has_live

    @property
    def has_live(self) -> bool:
        """True if there is a chain whose money is real."""
        chains: tuple[chain_files.Chain, ...] = (*self.chains, *self.solana_chains)
        return any(chain.live for chain in chains)

    @property
    def has_embedded(self) -> bool:
        """True if the embedded EVM chain runs."""
        return self.has_demo and self.embedded.enabled

    @property
    def has_embedded_solana(self) -> bool:
        """The same of the embedded Solana chain."""
        return self.has_demo and self.embedded_solana.enabled

    def files(self) -> tuple[Path, ...]:
        """The florin.toml files that there are: the first one counts, and no other."""
        return settings_file.found(self.home)
