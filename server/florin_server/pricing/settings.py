"""What the operator tells about who knows what coins cost."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal, Self, TypeAlias
from urllib.parse import quote, urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, model_validator

from florin_server.domain.caip import canonical_asset, evm_address, parse_chain
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
    if parts.scheme != "https" and not (parts.scheme == "http" and _is_loopback(parts.hostname)):
        raise ValueError("a source's address begins with https://, but on this machine")
    return text


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


AssetKey = Annotated[str, AfterValidator(canonical_asset)]
Currency = Annotated[str, Field(pattern=r"^[A-Z]{3}$")]
Price = Annotated[str, AfterValidator(_price)]
Path = Annotated[tuple[str, ...], Field(min_length=1, max_length=20)]


class HttpSource(BaseModel):
    """A service that tells prices in JSON.

    In `url` and `path`, `{base}` and `{quote}` stand for what it calls an asset and a currency.
    `path` leads to the price, by names and, in lists, by numbers from 0; `time_path` to the time of
    the price in Unix seconds, which is else the time of asking.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: Annotated[str, AfterValidator(_template)]
    path: Path
    time_path: Path | None = None
    headers: dict[str, SecretStr] = {}
    timeout_s: float = Field(default=5.0, gt=0, description="a price is asked for again soon")
    answer_bytes_max: int = Field(
        default=1 << 20, ge=1, description="a list of all coins has some hundred kilobytes"
    )

    def url_of(self, base: str, quoted: str) -> str:
        """Where a pair's price is."""
        made = self.url.replace("{base}", quote(base, safe=""))
        return made.replace("{quote}", quote(quoted, safe=""))


class _Watched(BaseModel):
    """A source whose prices are looked at before they are believed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    change_max_percent: int = Field(
        default=20, ge=1, description="more between two prices is a mistake, or a day to stop"
    )


class FromHttp(_Watched):
    """A price that an HTTP source tells."""

    kind: Literal["http"]
    source: str
    base: str
    quote: str
    stale_s: int = Field(default=300, ge=1, description="a coin moves by a percent in that time")


class FromOracle(_Watched):
    """A price that a feed on an EVM chain of the settings tells, of the usual aggregator form."""

    kind: Literal["oracle"]
    chain: Annotated[str, AfterValidator(_chain)]
    feed: Annotated[str, AfterValidator(_address)]
    stale_s: int = Field(
        default=3900, ge=1, description="the usual feed writes once an hour if nothing changes"
    )


class Fixed(BaseModel):
    """A price that the operator wrote down."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["fixed"]
    price: Price


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
    http: dict[str, HttpSource] = {}
    pairs: dict[AssetKey, dict[Currency, Annotated[tuple[PricedBy, ...], Field(min_length=1)]]] = {}

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for asset, by_currency in self.pairs.items():
            for way in (way for ways in by_currency.values() for way in ways):
                if isinstance(way, FromHttp) and way.source not in self.http:
                    raise ValueError(f"prices of {asset}: there is no source {way.source!r}")
        return self
