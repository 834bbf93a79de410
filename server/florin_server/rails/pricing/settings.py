"""Settings of the price sources."""

from __future__ import annotations

from typing import Annotated, Literal, Self, TypeAlias
from urllib.parse import quote, urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, model_validator

from florin_server.domain.caip import canonicalize_asset, parse_chain, parse_evm_address
from florin_server.domain.urls import is_loopback
from florin_server.rails.pricing.prices import parse_decimal

_PLACEHOLDERS = ("{base}", "{quote}")


def _check_price(text: str) -> str:
    parse_decimal(text)
    return text


def _parse_address(text: str) -> str:
    return parse_evm_address(text)


def _parse_chain(text: str) -> str:
    return str(parse_chain(text))


def _check_template(text: str) -> str:
    parts = urlsplit(text)
    if not parts.hostname or any(place in parts.netloc for place in _PLACEHOLDERS):
        raise ValueError("the URL of a source must have a fixed host")
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname)):
        raise ValueError("the URL of a source must begin with https://, except on this machine")
    return text


AssetKey = Annotated[str, AfterValidator(canonicalize_asset)]
CurrencyCode = Annotated[str, Field(pattern=r"^[A-Z]{3}$")]
PriceText = Annotated[str, AfterValidator(_check_price)]
JsonPath = Annotated[tuple[str, ...], Field(min_length=1, max_length=20)]


class HttpSourceSettings(BaseModel):
    """A service that returns prices in JSON.

    In `url` and `path`, `{base}` and `{quote}` are its names of an asset and a currency.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: Annotated[str, AfterValidator(_check_template)] = Field(
        description="URL of the source; https, except on this machine"
    )
    path: JsonPath = Field(
        description="path to the price in the response: member names, and positions in lists from 0"
    )
    time_path: JsonPath | None = Field(
        default=None,
        description="path to the time of the price in Unix seconds; unset: the time of the request",
    )
    headers: dict[str, SecretStr] = Field(
        default={},
        description="headers of the request, for example an access key; never shown or logged",
    )
    timeout_s: float = Field(
        default=5.0, gt=0, description="seconds for a response; Florin asks again soon"
    )
    answer_bytes_max: int = Field(
        default=1 << 20,
        ge=1,
        description="largest response in bytes; a list of all coins has some hundred kilobytes",
    )

    def build_url(self, base: str, quoted: str) -> str:
        """Return the URL of a pair's price."""
        url = self.url.replace("{base}", quote(base, safe=""))
        return url.replace("{quote}", quote(quoted, safe=""))


class _CheckedPriceSettings(BaseModel):
    """A source whose prices are checked before use."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    change_max_percent: int = Field(
        default=20,
        ge=1,
        description="largest change between two prices; above, Florin drops the source, because "
        "it is a mistake or a day to stop",
    )


class HttpPriceSettings(_CheckedPriceSettings):
    """A price of an HTTP source."""

    kind: Literal["http"] = Field(description="marks a price of this kind")
    source: str = Field(description="name of a table of `[prices.http]`")
    base: str = Field(description="the source's name of the asset")
    quote: str = Field(description="the source's name of the currency")
    stale_s: int = Field(
        default=300,
        ge=1,
        description="seconds for which a price is valid; a coin moves by a percent in that time",
    )


class OraclePriceSettings(_CheckedPriceSettings):
    """A price of a feed on a configured EVM chain, of the usual aggregator form."""

    kind: Literal["oracle"] = Field(description="marks a price of this kind")
    chain: Annotated[str, AfterValidator(_parse_chain)] = Field(
        description="CAIP-2 id of an EVM chain of the settings"
    )
    feed: Annotated[str, AfterValidator(_parse_address)] = Field(description="address of the feed")
    stale_s: int = Field(
        default=3900,
        ge=1,
        description="seconds for which a price is valid; the usual feed writes at least once an "
        "hour",
    )


class FixedPriceSettings(BaseModel):
    """A fixed price of the settings."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["fixed"] = Field(description="marks a price of this kind")
    price: PriceText = Field(description="price of one whole unit, as a decimal number")


PriceSourceSettings: TypeAlias = Annotated[
    HttpPriceSettings | OraclePriceSettings | FixedPriceSettings, Field(discriminator="kind")
]


class PriceSettings(BaseModel):
    """Sources of the price of an asset (CAIP-19) in a currency; the first with a price is used."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    refresh_s: float = Field(default=30.0, gt=0, description="seconds between two requests")
    peg_off_max_percent: int | None = Field(
        default=None,
        ge=1,
        description="largest deviation from a peg: Florin does not offer a token with a price "
        "pair for its peg while its price is further off, or unknown; unset: a peg "
        "always holds",
    )
    http: dict[str, HttpSourceSettings] = Field(
        default={}, description="HTTP price sources, by names of your choice"
    )
    pairs: dict[
        AssetKey,
        dict[CurrencyCode, Annotated[tuple[PriceSourceSettings, ...], Field(min_length=1)]],
    ] = Field(
        default={},
        description="sources by asset (CAIP-19) and currency, the most trusted first; pairs that "
        "are not listed use `rates`",
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for asset, by_currency in self.pairs.items():
            for way in (way for ways in by_currency.values() for way in ways):
                if isinstance(way, HttpPriceSettings) and way.source not in self.http:
                    raise ValueError(f"prices of {asset}: unknown source {way.source!r}")
        return self
