"""What the operator tells about who knows what coins cost."""

from __future__ import annotations

from typing import Annotated, Literal, Self, TypeAlias
from urllib.parse import quote, urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, model_validator

from florin_server.domain.caip import canonical_asset, evm_address, parse_chain
from florin_server.domain.urls import is_loopback
from florin_server.pricing.prices import parse_decimal

_PLACES = ("{base}", "{quote}")


def _price(text: str) -> str:
    parse_decimal(text)
    return text


def _address(text: str) -> str:
    return evm_address(text)


def _chain(text: str) -> str:
    return str(parse_chain(text))


def _template(text: str) -> str:
    parts = urlsplit(text)
    if not parts.hostname or any(place in parts.netloc for place in _PLACES):
        raise ValueError("a source's address has a host, always the same")
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname)):
        raise ValueError("a source's address begins with https://, but on this machine")
    return text


AssetKey = Annotated[str, AfterValidator(canonical_asset)]
Currency = Annotated[str, Field(pattern=r"^[A-Z]{3}$")]
Price = Annotated[str, AfterValidator(_price)]
Path = Annotated[tuple[str, ...], Field(min_length=1, max_length=20)]


class HttpSource(BaseModel):
    """A service that tells prices in JSON.

    In `url` and `path`, `{base}` and `{quote}` stand for what it calls an asset and a currency.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: Annotated[str, AfterValidator(_template)] = Field(
        description="where it is asked; https, but on this machine"
    )
    path: Path = Field(
        description="leads to the price in its answer: names, and in lists numbers from 0"
    )
    time_path: Path | None = Field(
        default=None,
        description="leads to the time of the price in Unix seconds; unset: when it was asked",
    )
    headers: dict[str, SecretStr] = Field(
        default={}, description="sent along, e.g. an access key; never shown or logged"
    )
    timeout_s: float = Field(
        default=5.0, gt=0, description="what it gets to answer; it is asked again soon"
    )
    answer_bytes_max: int = Field(
        default=1 << 20,
        ge=1,
        description="a longer answer is not read; a list of all coins has some hundred kilobytes",
    )

    def url_of(self, base: str, quoted: str) -> str:
        """Where a pair's price is."""
        made = self.url.replace("{base}", quote(base, safe=""))
        return made.replace("{quote}", quote(quoted, safe=""))


class _Watched(BaseModel):
    """A source whose prices are looked at before they are believed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    change_max_percent: int = Field(
        default=20,
        ge=1,
        description="more between two prices takes it out: it is a mistake, or a day to stop",
    )


class FromHttp(_Watched):
    """A price that an HTTP source tells."""

    kind: Literal["http"] = Field(description="what makes it a price of this kind")
    source: str = Field(description="name of a table of `[prices.http]`")
    base: str = Field(description="what the source calls the asset")
    quote: str = Field(description="what the source calls the currency")
    stale_s: int = Field(
        default=300,
        ge=1,
        description="how long a price counts: a coin moves by a percent in that time",
    )


class FromOracle(_Watched):
    """A price that a feed on an EVM chain of the settings tells, of the usual aggregator form."""

    kind: Literal["oracle"] = Field(description="what makes it a price of this kind")
    chain: Annotated[str, AfterValidator(_chain)] = Field(
        description="CAIP-2 id of an EVM chain of the settings"
    )
    feed: Annotated[str, AfterValidator(_address)] = Field(description="address of the feed")
    stale_s: int = Field(
        default=3900,
        ge=1,
        description="how long a price counts: the usual feed writes at least once an hour",
    )


class Fixed(BaseModel):
    """A price that the operator wrote down."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["fixed"] = Field(description="what makes it a price of this kind")
    price: Price = Field(description="what one whole unit costs, in decimal digits")


PricedBy: TypeAlias = Annotated[FromHttp | FromOracle | Fixed, Field(discriminator="kind")]


class PriceSettings(BaseModel):
    """Who is asked what an asset (CAIP-19) costs in a currency; the first who knows is believed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    refresh_s: float = Field(default=30.0, gt=0, description="between two questions")
    peg_off_max_percent: int | None = Field(
        default=None,
        ge=1,
        description="a token that has a pair for its peg is left out while its price is further "
        "off, or not known; unset: a peg always holds",
    )
    http: dict[str, HttpSource] = Field(
        default={}, description="sources that are asked over HTTP, by names of your choice"
    )
    pairs: dict[AssetKey, dict[Currency, Annotated[tuple[PricedBy, ...], Field(min_length=1)]]] = (
        Field(
            default={},
            description="who is asked, by asset (CAIP-19) and currency, the most trusted first; "
            "`rates` count for pairs that are not here",
        )
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for asset, by_currency in self.pairs.items():
            for way in (way for ways in by_currency.values() for way in ways):
                if isinstance(way, FromHttp) and way.source not in self.http:
                    raise ValueError(f"prices of {asset}: there is no source {way.source!r}")
        return self
