"""Every setting, its default and its reason; read from florin.toml and FLORIN_* variables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from florin_server.domain.caip import canonical_asset
from florin_server.domain.screening import blocked_account
from florin_server.rails import chain_files
from florin_server.rails.evm.settings import EvmChain
from florin_server.rails.price_settings import AssetKey, Currency, Price, PriceSettings
from florin_server.rails.solana.settings import SolanaChain


class EmbeddedChain(BaseModel):
    """The EVM chain that Florin brings along, for demos, tests and test mode."""

    model_config = ConfigDict(frozen=True)

    enabled: bool = True
    rpc_port: int = Field(default=0, ge=0, le=65535, description="0 takes any free port")
    block_interval_s: float = Field(
        default=0.5, ge=0, description="0 seals a block for each transaction"
    )
    confirmations: int = Field(default=2, ge=1, description="enough to see `processing` happen")


class EmbeddedSolana(BaseModel):
    """The Solana chain that Florin brings along, for the same."""

    model_config = ConfigDict(frozen=True)

    enabled: bool = True
    rpc_port: int = Field(default=0, ge=0, le=65535, description="0 takes any free port")
    slot_s: float = Field(
        default=0.4, ge=0, description="as on Solana; 0 gives each transaction a slot of its own"
    )
    finalized_slots: int = Field(
        default=4, ge=1, description="slots on top of a final one: 32 on Solana, a buyer's patience"
    )
    durable_nonces: int = Field(
        default=0, ge=0, le=100, description="payments whose buyers may sign slowly, at a time"
    )
    accounts_a_day: int = Field(
        default=50, ge=0, description="token accounts opened for receivers in advance"
    )


class LimitSettings(BaseModel):
    """How much is taken from whom; 0 a minute, or 0 held answers, turns a limit off.

    A burst is what may come at once, before the rate counts.
    """

    model_config = ConfigDict(frozen=True)

    key_per_minute: int = Field(
        default=12_000, ge=0, description="an API key: 200 calls a second are a very large shop"
    )
    key_burst: int = Field(default=600, ge=1, description="3 s of them, after a pause of its own")
    app_per_minute: int = Field(
        default=1_200, ge=0, description="App-Id with Client-Id: 20 polls a second of one device"
    )
    app_burst: int = Field(default=120, ge=1, description="6 s of them")
    payment_per_minute: int = Field(
        default=20,
        ge=0,
        description="new confirms, cancels, and forms, of one payment: each may ask a chain; no "
        "buyer needs more",
    )
    payment_burst: int = Field(default=20, ge=1, description="a wallet that tries them in a row")
    failure_per_minute: int = Field(
        default=60, ge=0, description="401 answers for one address: guessing is hopeless, and quiet"
    )
    failure_burst: int = Field(default=60, ge=1, description="a deployment with a mistyped key")
    page_per_minute: int = Field(
        default=600, ge=0, description="buyer pages for one address: many buyers may share it"
    )
    page_burst: int = Field(default=100, ge=1, description="a queue at a till behind one address")
    held_per_credential: int = Field(
        default=1_000, ge=0, description="long polls and streams at a time; each holds memory"
    )
    held_per_payment: int = Field(
        default=50, ge=0, description="the same for one payment: nobody shows it on more screens"
    )


class CaptureSettings(BaseModel):
    """Whose data is asked for before a payment, and how long it is kept.

    It counts for its payment if the wallet that told it, by a form or along with its calls,
    confirms the payment; for later ones of the same account and wallet app only if the account
    signed for it, which it does not where its wallet sends the transaction by itself.
    `from_amount` tells for a currency (ISO 4217), or an asset (CAIP-19) in which a payment may be
    asked for, the number of minor units from which on data is needed; for others it always is.
    """

    model_config = ConfigDict(frozen=True)

    enabled: bool = Field(default=False, description="most merchants need no data about buyers")
    from_amount: dict[str, Annotated[int, Field(ge=0)]] = {}
    modes: tuple[Literal["live", "test"], ...] = ("live", "test")
    assets: tuple[Annotated[str, AfterValidator(canonical_asset)], ...] = Field(
        default=(), description="CAIP-19 of what is paid with; empty: all"
    )
    retention_days: int = Field(
        default=5 * 365, ge=1, description="what anti-money-laundering rules commonly ask for"
    )
    frame_origins: tuple[Annotated[str, Field(pattern=r"^https?://[^\s;,'\"/]+$")], ...] = Field(
        default=(), description="sites of web wallets that may show the form in a frame"
    )


class Settings(BaseSettings):
    """What an operator can choose."""

    model_config = SettingsConfigDict(
        env_prefix="FLORIN_", env_nested_delimiter="__", frozen=True, extra="ignore"
    )
    toml_path: ClassVar[Path] = Path("florin.toml")

    home: Path = Path(".florin")
    host: str = "127.0.0.1"
    http_port: int = Field(default=8080, ge=0, le=65535)
    grpc_port: int = Field(default=50051, ge=0, le=65535)
    operator_port: int = Field(default=0, ge=0, le=65535)
    pay_url: str = Field(default="", description="base of payment links; empty: the REST address")
    insecure_bind: bool = Field(
        default=False, description="allow plain text on an address that others can reach"
    )

    request_head_s: float = Field(
        default=5.0, gt=0, description="a slower head is answered 408: it holds a connection"
    )
    request_body_s: float = Field(default=5.0, gt=0, description="a slower body is answered 408")

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

    embedded: EmbeddedChain = EmbeddedChain()
    embedded_solana: EmbeddedSolana = EmbeddedSolana()
    chains: tuple[EvmChain, ...] = ()
    solana_chains: tuple[SolanaChain, ...] = ()

    currencies: tuple[str, ...] = ("USD", "EUR", "GBP")
    amount_min: int = Field(default=1, ge=1, description="minor units of the requested currency")
    rates: dict[AssetKey, dict[Currency, Price]] = Field(
        default={},
        description="what one whole unit costs of an asset (CAIP-19) without a peg, by currency",
    )
    prices: PriceSettings = PriceSettings()
    quote_s: int = Field(default=300, ge=1, description="a buyer decides; a rate changes")
    payment_ttl_s: int = Field(default=900, ge=1, description="the documented default")
    payment_ttl_max_s: int = Field(default=30 * 86400, description="no buyer waits longer")
    idempotency_ttl_s: int = Field(default=7 * 86400, ge=86400)
    fee_fixed: int = Field(default=0, ge=0, description="minor units of the paid token")
    fee_basis_points: int = Field(default=0, ge=0, le=10_000)

    refund_credit: dict[AssetKey, Annotated[int, Field(ge=0)]] = Field(
        default={},
        description="minor units of an asset (CAIP-19) that each merchant may owe for refunds of "
        "live payments; without it a merchant that is settled to its own wallet could pay itself "
        "and refund itself out of the treasury",
    )

    limits: LimitSettings = LimitSettings()
    capture: CaptureSettings = CaptureSettings()
    blocked_accounts: tuple[Annotated[str, AfterValidator(blocked_account)], ...] = Field(
        default=(), description="accounts that are not served: CAIP-10, or bare EVM addresses"
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
    discovery_s: float = Field(default=3.0, description="a slower chain is left out")
    key_cache_s: float = Field(default=5.0, description="a revoked key works no longer than this")
    books_check_s: float = Field(
        default=300.0, gt=0, description="how often the books are compared with every chain"
    )
    settle_batch: int = Field(default=50, ge=1, le=50, description="payments per transaction")
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
        toml = TomlConfigSettingsSource(settings_cls, toml_file=cls.toml_path)
        return init_settings, env_settings, toml
