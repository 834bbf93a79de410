"""What an operator can choose: from arguments, FLORIN_* variables, and florin.toml."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    AfterValidator,
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
from florin_server.config.amounts import AmountSetting
from florin_server.config.app_links import AppLinkSettings
from florin_server.config.capture import CaptureSettings
from florin_server.config.checkout import CheckoutSettings
from florin_server.config.database import DatabaseSettings
from florin_server.config.embedded import EmbeddedChain, EmbeddedSolana
from florin_server.config.limits import (
    FailedFeeSettings,
    FailedGasSettings,
    LimitSettings,
    RefundCredit,
)
from florin_server.config.tracing import TracingSettings
from florin_server.config.webhooks import WebhookSettings
from florin_server.domain.screening.blocklist import blocked_account
from florin_server.pricing.settings import AssetKey, Currency, Price, PriceSettings
from florin_server.rails.evm.settings import EvmChain
from florin_server.rails.networks import chain_files
from florin_server.rails.solana.settings import SolanaChain

Network: TypeAlias = IPv4Network | IPv6Network
# before the IPv4 address in an IPv6 address that stands for one
_MAPPED_BITS = 96


def _some(network: Network) -> Network:
    """A network as addresses are compared with it; ValueError for one that holds everybody."""
    if network.prefixlen == 0:
        raise ValueError("everybody would be believed: name the proxies' own networks")
    mapped = network.network_address.ipv4_mapped if network.version == 6 else None
    if mapped is None:
        return network
    if network.prefixlen <= _MAPPED_BITS:
        raise ValueError("everybody would be believed: name the proxies' own networks")
    return IPv4Network((mapped, network.prefixlen - _MAPPED_BITS))


class Settings(BaseSettings):
    """What an operator can choose."""

    model_config = SettingsConfigDict(
        env_prefix="FLORIN_", env_nested_delimiter="__", frozen=True, extra="ignore"
    )
    home: Path = Field(
        default=settings_file.HOME,
        description="state folder: the store, keys, chains that were added",
    )
    store: SecretStr | None = Field(
        default=None,
        description="`postgresql://…`, a database that may serve several processes; unset: SQLite, "
        "in the state folder",
    )
    store_file: Path | None = Field(default=None, description="holds that address")
    database: DatabaseSettings = Field(
        default=DatabaseSettings(), description="how PostgreSQL is used"
    )
    host: str = Field(
        default="127.0.0.1",
        description="address to listen on; others need a certificate, or TLS in front",
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
    console: bool | None = Field(
        default=None,
        description="the merchants' console, at `/console` of REST; unset: only where REST is for "
        "this machine, with no proxy in front and no other address in payment links. `false` turns "
        "the operator's off too, which is at `/console` of the metrics' address",
    )
    log_format: Literal["text", "json"] = Field(
        default="text", description="lines of the log: for people, or JSON for programs"
    )
    pay_url: str = Field(default="", description="base of payment links; empty: the REST address")
    site_name: str = Field(
        default="",
        max_length=100,
        description="what its first page calls the installation; empty: the host of payment links",
    )
    fetch_icons: bool = Field(
        default=True,
        description="merchants' icons are fetched from where they say, at public addresses only, "
        "and shown on pages from this host",
    )
    insecure_bind: bool = Field(
        default=False, description="allow plain text on an address that others can reach"
    )
    tls_certificate: Path | None = Field(
        default=None,
        description="PEM file with the certificate of REST and gRPC and those between it and its "
        "authority; looked at every 10 s, and a new one counts for new connections; unset: plain "
        "text",
    )
    tls_key: Path | None = Field(
        default=None, description="PEM file with its key, which not everybody may read"
    )
    grpc_client_ca: Path | None = Field(
        default=None,
        description="PEM file with who vouches for clients of gRPC, who then need certificates",
    )

    request_head_s: float = Field(
        default=5.0, gt=0, description="a slower head is answered 408: it holds a connection"
    )
    request_body_s: float = Field(default=5.0, gt=0, description="a slower body is answered 408")
    trusted_proxies: tuple[Annotated[IPvAnyNetwork, AfterValidator(_some)], ...] = Field(
        default=(),
        description="networks of the proxies in front of REST or gRPC, who tell who calls; empty: "
        "nobody is believed, and all that comes through a proxy is one address",
    )
    proxy_header: Literal["x-forwarded-for", "forwarded", "proxy-protocol"] = Field(
        default="x-forwarded-for",
        description="how they tell it, and no other header counts: they have to set this one "
        "whatever their callers sent; proxy-protocol is what balancers of connections say, to REST "
        "only",
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
    amount_min: AmountSetting = Field(
        default=1,
        description='the least that may be asked for, `"0.50 USD"` or `{ USD = "0.50", EUR = '
        '"0.45" }`; other currencies and tokens are held to the same value, by pegs and rates. A '
        "plain number counts minor units of whatever currency is asked for, or that a token is "
        "pegged to; 1 is no bound",
    )
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
    fee_fixed: AmountSetting = Field(
        default=0,
        description='what you keep of each payment besides the share, `"0.30 USD"` or `{ USD = '
        '"0.30", EUR = "0.25" }`, converted into what is paid; an asset without a peg or rate for '
        "that is not offered. A plain number counts millionths of the currency: minor units of the "
        "tokens with six decimals",
    )
    fee_basis_points: int = Field(
        default=0,
        ge=0,
        le=10_000,
        description="the share that you keep of each payment, rounded up",
    )

    refunds_max: int = Field(
        default=20,
        ge=1,
        le=100,
        description="the most refunds that one payment takes; each costs you gas",
    )
    refund_credit: dict[AssetKey, RefundCredit] = Field(
        default={},
        description="minor units of an asset (CAIP-19) that merchants may owe for refunds of live "
        "payments: a number is what all merchants of one partner may owe together, and ten times "
        "as much all partners; a table with `partner`, `merchant` and `total` says more. A "
        "merchant that is settled to its own wallet can pay itself and be refunded out of the "
        "treasury, so nothing may be owed without it",
    )

    limits: LimitSettings = Field(
        default=LimitSettings(), description="how much is taken from one caller"
    )
    failed_gas: FailedGasSettings = Field(
        default=FailedGasSettings(), description="gas that failed payments may cost"
    )
    failed_fees: FailedFeeSettings = Field(
        default=FailedFeeSettings(), description="Solana fees that failed payments may cost"
    )
    capture: CaptureSettings = Field(
        default=CaptureSettings(), description="what buyers are asked about themselves"
    )
    app_links: AppLinkSettings = Field(
        default=AppLinkSettings(), description="wallet apps that open payment links"
    )
    checkout: CheckoutSettings = Field(
        default=CheckoutSettings(), description="the page behind a payment link"
    )
    tracing: TracingSettings = Field(
        default=TracingSettings(), description="traces for OpenTelemetry"
    )
    webhooks: WebhookSettings = Field(
        default=WebhookSettings(), description="how merchants' back ends are told of changes"
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
    key_cache_s: float = Field(
        default=5.0,
        description="a revoked key reads no longer than this, whatever happens; it moves nothing "
        "from then on",
    )
    books_check_s: float = Field(
        default=300.0, gt=0, description="how often the books are compared with every chain"
    )
    settle_batch: int = Field(
        default=50, ge=1, le=50, description="in one transaction: they share its cost"
    )
    drain_s: float = Field(
        default=0.0,
        ge=0,
        description="how long everything is answered still after `/readyz` and health checks have "
        "told that the service ends: balancers need some time to see it",
    )
    shutdown_s: float = Field(default=5.0, description="what open calls get to finish")
    grpc_connection_s: float = Field(
        default=30.0,
        ge=1,
        description="where several processes share ports, a connection of gRPC is asked to make "
        "way for a new one after this time, so that none is lost with its process; calls that are "
        "open go on. A reload takes as long for each process",
    )

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

    @property
    def has_test_panel(self) -> bool:
        """True if pages of test payments may drive them."""
        said = self.checkout.test_panel
        return self.has_demo if said is None else said

    def files(self) -> tuple[Path, ...]:
        """The florin.toml files that there are: the first one counts, and no other."""
        return settings_file.found(self.home)
