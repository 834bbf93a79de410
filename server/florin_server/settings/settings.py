"""The operator's settings: from arguments, FLORIN_* variables, and florin.toml."""

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

from florin_server.base import settings_file
from florin_server.domain.screening.blocklist import validate_blocklist_entry
from florin_server.rails.evm.settings import EvmChainSettings
from florin_server.rails.networks import chain_files
from florin_server.rails.pricing.settings import (
    AssetKey,
    CurrencyCode,
    PriceSettings,
    PriceText,
)
from florin_server.rails.solana.settings import SolanaChainSettings
from florin_server.settings.amounts import AmountSetting
from florin_server.settings.app_links import AppLinkSettings
from florin_server.settings.archive import ArchiveSettings
from florin_server.settings.capture import CaptureSettings
from florin_server.settings.checkout import CheckoutSettings
from florin_server.settings.database import DatabaseSettings
from florin_server.settings.embedded import EmbeddedChainSettings, EmbeddedSolanaSettings
from florin_server.settings.event_sink import EventSinkSettings
from florin_server.settings.limits import (
    FailedFeeSettings,
    FailedGasSettings,
    LimitSettings,
    RefundCreditSettings,
)
from florin_server.settings.tracing import TracingSettings
from florin_server.settings.webhooks import WebhookSettings
from florin_server.settings.x402 import (
    FacilitatedFeeSettings,
    FacilitatedGasSettings,
    X402Settings,
)

IpNetwork: TypeAlias = IPv4Network | IPv6Network
# the prefix of an IPv6 address that maps an IPv4 address
_MAPPED_BITS = 96


def _check_network(network: IpNetwork) -> IpNetwork:
    """Return a network in the form that addresses are compared with.

    ValueError if it covers everything.
    """
    if network.prefixlen == 0:
        raise ValueError("Florin would trust every caller: set the networks of the proxies only")
    mapped = network.network_address.ipv4_mapped if network.version == 6 else None
    if mapped is None:
        return network
    if network.prefixlen <= _MAPPED_BITS:
        raise ValueError("Florin would trust every caller: set the networks of the proxies only")
    return IPv4Network((mapped, network.prefixlen - _MAPPED_BITS))


class Settings(BaseSettings):
    """The operator's settings."""

    model_config = SettingsConfigDict(
        env_prefix="FLORIN_", env_nested_delimiter="__", frozen=True, extra="ignore"
    )
    home: Path = Field(
        default=settings_file.DEFAULT_HOME,
        description="state folder: the store, keys and added chains",
    )
    store: SecretStr | None = Field(
        default=None,
        description="URL of a PostgreSQL database (`postgresql://…`), which several processes "
        "can share; unset: SQLite in the state folder",
    )
    store_file: Path | None = Field(
        default=None, description="file that contains the value of `store`"
    )
    store_standby: SecretStr | None = Field(
        default=None,
        description="URL of a standby of the database of `store`, from which lists, searches, "
        "statements and exports are read",
    )
    store_standby_file: Path | None = Field(
        default=None, description="file that contains the value of `store_standby`"
    )
    database: DatabaseSettings = Field(default=DatabaseSettings(), description="use of PostgreSQL")
    host: str = Field(
        default="127.0.0.1",
        description="address to listen on; an address other than this machine's needs a "
        "certificate, or TLS in front",
    )
    http_port: int = Field(
        default=8080, ge=0, le=65535, description="port of REST; 0: any free port"
    )
    grpc_port: int = Field(
        default=50051, ge=0, le=65535, description="port of gRPC; 0: any free port"
    )
    operator_port: int = Field(
        default=0,
        ge=0,
        le=65535,
        description="port of gRPC for the operator's commands, on 127.0.0.1 only; 0: any free "
        "port, which the commands find automatically",
    )
    metrics_port: int | None = Field(
        default=None,
        ge=0,
        le=65535,
        description="port of metrics for Prometheus, on 127.0.0.1 only; 0: any free port; unset: "
        "no metrics",
    )
    console: bool | None = Field(
        default=None,
        description="the merchants' console, at `/console` of REST; unset: only if REST listens "
        "on this machine alone, without a proxy in front and without another address "
        "in payment links. `false` also turns off the operator's console, at "
        "`/console` of the metrics port",
    )
    log_format: Literal["text", "json"] = Field(
        default="text", description="format of the log: text for people, or JSON for programs"
    )
    pay_url: str = Field(
        default="", description="base URL of payment links; empty: the REST address"
    )
    site_name: str = Field(
        default="",
        max_length=100,
        description="name of the installation on its first page; empty: the host of payment links",
    )
    fetch_icons: bool = Field(
        default=True,
        description="fetch merchants' icons from their URLs, at public addresses only, and serve "
        "them on pages from this host",
    )
    insecure_bind: bool = Field(
        default=False, description="allow plain text on an address that other machines can reach"
    )
    tls_certificate: Path | None = Field(
        default=None,
        description="PEM file with the certificate of REST and gRPC and its intermediate "
        "certificates; read every 10 s, and new connections use a new certificate; "
        "unset: plain text",
    )
    tls_key: Path | None = Field(
        default=None,
        description="PEM file with the key of the certificate; other users must not be able to "
        "read it",
    )
    grpc_client_ca: Path | None = Field(
        default=None,
        description="PEM file with the authorities of client certificates for gRPC; if set, "
        "clients need a certificate",
    )

    request_head_s: float = Field(
        default=5.0,
        gt=0,
        description="seconds to receive a request's head; a slower head gets 408, because it "
        "occupies a connection",
    )
    request_body_s: float = Field(
        default=5.0, gt=0, description="seconds to receive a request's body; a slower body gets 408"
    )
    trusted_proxies: tuple[Annotated[IPvAnyNetwork, AfterValidator(_check_network)], ...] = Field(
        default=(),
        description="networks of the proxies in front of REST or gRPC whose statements about "
        "callers Florin trusts; empty: none, and all calls through a proxy count as "
        "one address",
    )
    proxy_header: Literal["x-forwarded-for", "forwarded", "proxy-protocol"] = Field(
        default="x-forwarded-for",
        description="how the proxies name the caller; Florin reads no other header. They must "
        "overwrite this header on every request. proxy-protocol is for connection "
        "load balancers in front of REST",
    )
    gateway_token: SecretStr | None = Field(
        default=None,
        description="secret shared with `florin gateway`, whose statements about callers Florin "
        "then trusts. Without it, a gateway with the same state folder uses a secret "
        "from there, and all callers through other gateways count as one address",
    )
    gateway_token_file: Path | None = Field(
        default=None, description="file that contains the value of `gateway_token`"
    )

    sandbox_clock: bool = Field(
        default=True,
        description="test keys can advance the clock of the whole installation, if every chain "
        "is embedded",
    )
    keystore_password: SecretStr | None = Field(
        default=None, description="password of every keystore; better in a file"
    )
    keystore_password_file: Path | None = Field(
        default=None,
        description="file that contains the value of `keystore_password`, for example from a "
        "secret store",
    )

    demo: bool | None = Field(
        default=None,
        description="embedded chains and the test accounts of demo.env; unset: on until a live "
        "chain exists, because the test keys are in a file and test money is free",
    )
    embedded: EmbeddedChainSettings = Field(
        default=EmbeddedChainSettings(), description="the embedded EVM chain"
    )
    embedded_solana: EmbeddedSolanaSettings = Field(
        default=EmbeddedSolanaSettings(), description="the embedded Solana chain"
    )
    chains: tuple[EvmChainSettings, ...] = Field(
        default=(), description="EVM chains, in addition to those of `florin chain add`"
    )
    solana_chains: tuple[SolanaChainSettings, ...] = Field(
        default=(), description="Solana clusters, in addition to those of `florin chain add`"
    )

    currencies: tuple[str, ...] = Field(
        default=("USD", "EUR", "GBP"),
        description="currencies (ISO 4217) of payments",
    )
    amount_min: AmountSetting = Field(
        default=1,
        description='minimum amount of a payment, `"0.50 USD"` or `{ USD = "0.50", EUR = "0.45" '
        "}`; pegs and rates convert it to other currencies and tokens. A plain "
        "number means minor units of the payment's currency, or of the currency to "
        "which the token is pegged; 1: no minimum",
    )
    rates: dict[AssetKey, dict[CurrencyCode, PriceText]] = Field(
        default={},
        description="price of one whole unit of an asset (CAIP-19) without a peg, by currency",
    )
    prices: PriceSettings = Field(default=PriceSettings(), description="price sources")
    quote_s: int = Field(
        default=300,
        ge=1,
        description="seconds for which a quote is valid if its price depends on a rate; buyers "
        "need time, but rates change",
    )
    payment_ttl_s: int = Field(
        default=900,
        ge=1,
        description="seconds until a payment expires that was created without `expiresAt`",
    )
    payment_ttl_max_s: int = Field(
        default=30 * 86400,
        description="largest time until `expiresAt`, in seconds; no buyer waits longer",
    )
    idempotency_ttl_s: int = Field(
        default=7 * 86400,
        ge=86400,
        description="seconds for which Florin keeps the response to an idempotency key; clients "
        "retry for hours",
    )
    fee_fixed: AmountSetting = Field(
        default=0,
        description='fixed fee of each payment, in addition to the share, `"0.30 USD"` or `{ USD '
        '= "0.30", EUR = "0.25" }`, converted to the paying asset; Florin does not '
        "offer assets without a peg or rate for it. A plain number means millionths "
        "of the currency: minor units of tokens with six decimals",
    )
    fee_basis_points: int = Field(
        default=0,
        ge=0,
        le=10_000,
        description="variable fee of each payment, rounded up",
    )

    owed_fees: bool = Field(
        default=False,
        description="offer transfers on Solana that only the merchant receives, by links and by "
        "x402, also where you take a fee: the merchant owes it. The fee needs cover as a refund "
        "does: the merchant's balance, or `refund_credit`",
    )
    refunds_max: int = Field(
        default=20,
        ge=1,
        le=100,
        description="largest number of refunds of one payment; each costs you gas",
    )
    refund_credit: dict[AssetKey, RefundCreditSettings] = Field(
        default={},
        description="credit for refunds and owed fees of live payments, in minor units by asset "
        "(CAIP-19): a number is the limit of all merchants of one partner together, and ten times "
        "as much for all partners; a table sets `partner`, `merchant` and `total`. "
        "Unset: no credit, because a merchant settled to its own wallet could pay "
        "itself and then be refunded from the treasury",
    )

    limits: LimitSettings = Field(
        default=LimitSettings(), description="rate limits and other limits of callers"
    )
    failed_gas: FailedGasSettings = Field(
        default=FailedGasSettings(), description="budgets of gas for failed payments"
    )
    failed_fees: FailedFeeSettings = Field(
        default=FailedFeeSettings(), description="budgets of Solana fees for failed payments"
    )
    capture: CaptureSettings = Field(
        default=CaptureSettings(), description="data that buyers must give"
    )
    app_links: AppLinkSettings = Field(
        default=AppLinkSettings(), description="wallet apps that can open payment links"
    )
    checkout: CheckoutSettings = Field(default=CheckoutSettings(), description="the payment page")
    tracing: TracingSettings = Field(default=TracingSettings(), description="OpenTelemetry traces")
    webhooks: WebhookSettings = Field(
        default=WebhookSettings(), description="webhooks to merchants' back ends"
    )
    event_sink: EventSinkSettings = Field(
        default=EventSinkSettings(), description="a broker that receives the events of all payments"
    )
    archive: ArchiveSettings = Field(
        default=ArchiveSettings(), description="how long payments stay in the store"
    )
    x402: X402Settings = Field(default=X402Settings(), description="payments by programs (x402)")
    facilitated_gas: FacilitatedGasSettings = Field(
        default=FacilitatedGasSettings(), description="budgets for transfers of x402 on EVM chains"
    )
    facilitated_fees: FacilitatedFeeSettings = Field(
        default=FacilitatedFeeSettings(), description="budgets for transfers of x402 on Solana"
    )
    blocked_accounts: tuple[Annotated[str, AfterValidator(validate_blocklist_entry)], ...] = Field(
        default=(),
        description="blocked accounts: CAIP-10, or plain EVM addresses; money that they send "
        "without Florin is held until you decide: florin payments held",
    )
    screening_age_max_days: int = Field(
        default=30,
        ge=1,
        description="days after which a screening list raises a condition; public lists change "
        "weekly",
    )
    screening_required: bool = Field(
        default=False,
        description="refuse live payments unless every screening list is recent enough",
    )
    accounts_max: int = Field(
        default=256, description="accounts that Florin reads of one options call"
    )
    options_max: int = Field(default=100, description="options in one response")
    options_per_caller: int = Field(
        default=200,
        ge=10,
        description="options of one payment that Florin stores for one caller (an API key or an "
        "address): two full responses; Florin keeps them forever, to recognize late "
        "money",
    )
    options_per_payment: int = Field(
        default=4_000,
        ge=100,
        description="options of one payment that Florin stores for all callers, about 10 MB; "
        "once half are used, a new caller gets a tenth of its share, so that a few "
        "callers cannot use up all",
    )
    discovery_s: float = Field(
        default=3.0,
        description="seconds for the answer of a chain; Florin leaves out slower chains",
    )
    key_cache_s: float = Field(
        default=5.0,
        description="seconds for which a revoked API key can at most still read; it can change "
        "nothing from the revocation on",
    )
    books_check_s: float = Field(
        default=300.0,
        gt=0,
        description="seconds between two comparisons of the ledger with every chain",
    )
    settle_batch: int = Field(
        default=50, ge=1, le=50, description="payments in one transaction, which share its cost"
    )
    drain_s: float = Field(
        default=0.0,
        ge=0,
        description="seconds for which Florin still answers after `/readyz` and health checks "
        "report the end of the service; load balancers need time to notice",
    )
    shutdown_s: float = Field(default=5.0, description="seconds for open calls to finish")
    grpc_connection_s: float = Field(
        default=30.0,
        ge=1,
        description="seconds after which a gRPC connection is asked to reconnect, if several "
        "processes share ports, so that no connection is lost with its process; open "
        "calls continue. A reload takes as long for each process",
    )

    @model_validator(mode="before")
    @classmethod
    def _add_chain_files(cls, data: dict[str, Any]) -> dict[str, Any]:
        """Treat chains that `florin chain add` wrote to the state folder like configured chains."""
        added = chain_files.read_all(Path(data.get("home", cls.model_fields["home"].default)))
        kinds = {"chains": EvmChainSettings, "solana_chains": SolanaChainSettings}
        return data | {
            name: [
                *data.get(name, ()),
                *(chain for chain in added.values() if isinstance(chain, kind)),
            ]
            for name, kind in kinds.items()
            # report a value that is not a list with all its faults
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
        """Let arguments override the environment, and the environment override the file."""
        home = (env_settings() | init_settings()).get("home")
        usual = cls.model_fields["home"].default
        settings = settings_file.read_settings(None if home is None else Path(home), usual)
        return init_settings, env_settings, InitSettingsSource(settings_cls, settings)

    @property
    def has_demo(self) -> bool:
        """Return True if embedded chains may run, and test accounts work."""
        if self.demo is not None:
            return self.demo
        return not self.has_live

    @property
    def has_live(self) -> bool:
        """Return True if there is a chain whose money is real."""
        chains: tuple[chain_files.AnyChainSettings, ...] = (*self.chains, *self.solana_chains)
        return any(chain.live for chain in chains)

    @property
    def has_embedded(self) -> bool:
        """Return True if the embedded EVM chain runs."""
        return self.has_demo and self.embedded.enabled

    @property
    def has_embedded_solana(self) -> bool:
        """Return whether the embedded Solana chain runs."""
        return self.has_demo and self.embedded_solana.enabled

    @property
    def has_test_panel(self) -> bool:
        """Return True if pages of test payments may drive them."""
        test_panel = self.checkout.test_panel
        return self.has_demo if test_panel is None else test_panel

    def list_files(self) -> tuple[Path, ...]:
        """Return the florin.toml files that there are: the first one counts, and no other."""
        return settings_file.list_files(self.home)
