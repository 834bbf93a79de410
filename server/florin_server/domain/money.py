"""Money as whole numbers: currencies, the units amounts are counted in, exact conversion."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from florin_server.domain.caip import AssetId, parse_asset

# The weakest currencies need some 10^16 for 100 million dollars. It fits into 64 bits, and in
# 18-digit tokens it still is a small part of 256.
MINOR_UNITS_MAX = 10**18
# beyond any purchase, in whole units of the reference currency
REFERENCE_CURRENCY = "USD"
REFERENCE_UNITS_MAX = 100_000_000
# decimals of rates
RATE_PLACES = 8
_DECIMALS_MAX = 255  # a token contract states its decimals in one byte
_FIAT_UNIT = re.compile(r"iso4217/([A-Z]{3})")
_NEARLY_FIAT = re.compile(r"(?:iso-?4217[/:])?([a-z]{3})", re.ASCII | re.IGNORECASE)
_ASSET_UNIT_PREFIX = "caip19/"

# currencies in use, by their number of minor digits, without funds and metals
_ISO_4217: Mapping[int, str] = {
    0: """
        BIF Burundi Franc | CLP Chilean Peso | DJF Djibouti Franc | GNF Guinean Franc
        | ISK Iceland Krona | JPY Japanese Yen | KMF Comorian Franc | KRW South Korean Won
        | PYG Guarani | RWF Rwanda Franc | UGX Uganda Shilling | VND Vietnamese Dong | VUV Vatu
        | XAF Central African CFA Franc | XOF West African CFA Franc | XPF CFP Franc
    """,
    2: """
        AED UAE Dirham | AFN Afghani | ALL Lek | AMD Armenian Dram | AOA Kwanza
        | ARS Argentine Peso | AUD Australian Dollar | AWG Aruban Florin | AZN Azerbaijan Manat
        | BAM Convertible Mark | BBD Barbados Dollar | BDT Taka | BMD Bermudian Dollar
        | BND Brunei Dollar | BOB Boliviano | BRL Brazilian Real | BSD Bahamian Dollar
        | BTN Ngultrum | BWP Pula | BYN Belarusian Ruble | BZD Belize Dollar
        | CAD Canadian Dollar | CDF Congolese Franc | CHF Swiss Franc | CNY Chinese Yuan
        | COP Colombian Peso | CRC Costa Rican Colon | CUP Cuban Peso | CVE Cabo Verde Escudo
        | CZK Czech Koruna | DKK Danish Krone | DOP Dominican Peso | DZD Algerian Dinar
        | EGP Egyptian Pound | ERN Nakfa | ETB Ethiopian Birr | EUR Euro | FJD Fiji Dollar
        | FKP Falkland Islands Pound | GBP Pound Sterling | GEL Lari | GHS Ghana Cedi
        | GIP Gibraltar Pound | GMD Dalasi | GTQ Quetzal | GYD Guyana Dollar
        | HKD Hong Kong Dollar | HNL Lempira | HTG Gourde | HUF Forint | IDR Indonesian Rupiah
        | ILS Israeli Shekel | INR Indian Rupee | IRR Iranian Rial | JMD Jamaican Dollar
        | KES Kenyan Shilling | KGS Som | KHR Riel | KPW North Korean Won
        | KYD Cayman Islands Dollar | KZT Tenge | LAK Lao Kip | LBP Lebanese Pound
        | LKR Sri Lanka Rupee | LRD Liberian Dollar | LSL Loti | MAD Moroccan Dirham
        | MDL Moldovan Leu | MGA Malagasy Ariary | MKD Denar | MMK Kyat | MNT Tugrik | MOP Pataca
        | MRU Ouguiya | MUR Mauritius Rupee | MVR Rufiyaa | MWK Malawi Kwacha | MXN Mexican Peso
        | MYR Malaysian Ringgit | MZN Mozambique Metical | NAD Namibia Dollar | NGN Naira
        | NIO Cordoba Oro | NOK Norwegian Krone | NPR Nepalese Rupee | NZD New Zealand Dollar
        | PAB Balboa | PEN Sol | PGK Kina | PHP Philippine Peso | PKR Pakistan Rupee | PLN Zloty
        | QAR Qatari Rial | RON Romanian Leu | RSD Serbian Dinar | RUB Russian Ruble
        | SAR Saudi Riyal | SBD Solomon Islands Dollar | SCR Seychelles Rupee
        | SDG Sudanese Pound | SEK Swedish Krona | SGD Singapore Dollar | SHP Saint Helena Pound
        | SLE Leone | SOS Somali Shilling | SRD Surinam Dollar | SSP South Sudanese Pound
        | STN Dobra | SVC El Salvador Colon | SYP Syrian Pound | SZL Lilangeni | THB Baht
        | TJS Somoni | TMT Turkmenistan Manat | TOP Pa'anga | TRY Turkish Lira
        | TTD Trinidad and Tobago Dollar | TWD New Taiwan Dollar | TZS Tanzanian Shilling
        | UAH Hryvnia | USD US Dollar | UYU Uruguayan Peso | UZS Uzbekistan Sum
        | VED Digital Bolivar | VES Bolivar Soberano | WST Tala | XCD East Caribbean Dollar
        | XCG Caribbean Guilder | YER Yemeni Rial | ZAR Rand | ZMW Zambian Kwacha
        | ZWG Zimbabwe Gold
    """,
    3: """
        BHD Bahraini Dinar | IQD Iraqi Dinar | JOD Jordanian Dinar | KWD Kuwaiti Dinar
        | LYD Libyan Dinar | OMR Rial Omani | TND Tunisian Dinar
    """,
}


@dataclass(frozen=True, slots=True)
class Currency:
    """A fiat currency. `decimals` are its minor digits."""

    code: str
    name: str
    decimals: int

    @property
    def symbol(self) -> str:
        """Return its ticker in answers."""
        return self.code


def _list_currencies() -> Iterator[Currency]:
    for decimals, table in _ISO_4217.items():
        for row in table.split("|"):
            code, _, name = row.strip().partition(" ")
            yield Currency(code, name, decimals)


CURRENCIES: Mapping[str, Currency] = {currency.code: currency for currency in _list_currencies()}


@dataclass(frozen=True, slots=True)
class FiatUnit:
    """The minor unit of a currency; `code` is a key of CURRENCIES."""

    code: str

    def __str__(self) -> str:
        return f"iso4217/{self.code}"


@dataclass(frozen=True, slots=True)
class TokenUnit:
    """The minor unit of an asset on a chain."""

    asset: AssetId

    def __str__(self) -> str:
        return f"{_ASSET_UNIT_PREFIX}{self.asset}"


Unit = FiatUnit | TokenUnit


@dataclass(frozen=True, slots=True)
class Amount:
    """So many minor units of what `unit` names (`iso4217/…` or `caip19/…`)."""

    unit: str
    value: int


def parse_unit(text: str) -> Unit:
    """Read a unit. ValueError if it is none, or of no currency; being enabled is not asked."""
    if text.startswith(_ASSET_UNIT_PREFIX):
        return TokenUnit(parse_asset(text.removeprefix(_ASSET_UNIT_PREFIX)))
    match = _FIAT_UNIT.fullmatch(text)
    if match is None:
        raise ValueError(f"not a unit: {text[:80]!r}")
    if match[1] not in CURRENCIES:
        raise ValueError(f"no such currency: {match[1]}")
    return FiatUnit(match[1])


def suggest_unit(text: str) -> str | None:
    """Return the unit that a text which is none probably means: in another case, without prefix."""
    if match := _NEARLY_FIAT.fullmatch(text):
        code = match[1].upper()
        return f"iso4217/{code}" if code in CURRENCIES else None
    try:
        return str(TokenUnit(parse_asset(text)))
    except ValueError:
        return None


def convert_up(value: int, from_decimals: int, to_decimals: int) -> int:
    """Convert minor units to larger or smaller minor units of the same value, rounded up.

    Rounding up means that a buyer never pays too little. ValueError if the value is below zero or a
    number of decimals is invalid.
    """
    if value < 0:
        raise ValueError(f"{value} is below zero")
    for decimals in (from_decimals, to_decimals):
        if not 0 <= decimals <= _DECIMALS_MAX:
            raise ValueError(f"{decimals} is no number of decimals")
    per_whole_before: int = 10**from_decimals
    per_whole_after: int = 10**to_decimals
    # floor division of the negated number rounds up
    return -(-value * per_whole_after // per_whole_before)


def compute_rate(requested: int, requested_decimals: int, paid: int, paid_decimals: int) -> int:
    """Return the requested units per whole unit of what is paid, times 10**RATE_PLACES.

    Both amounts are in minor units. Rounded half up; ZeroDivisionError if nothing is paid.
    """
    # minor units per minor unit, moved by the difference of decimals
    shift = paid_decimals - requested_decimals + RATE_PLACES
    top, bottom = requested * 10 ** max(shift, 0), paid * 10 ** max(-shift, 0)
    rate: int = (2 * top + bottom) // (2 * bottom)
    return rate


def compute_share(value: int, basis_points: int) -> int:
    """Return a share of an amount in hundredths of a percent, rounded up to whole minor units."""
    return -(-value * basis_points // 10_000)


def format_minor_units(value: int, decimals: int) -> str:
    """Return minor units as whole units for people, with every decimal, for any size and sign."""
    sign, digits = "-" if value < 0 else "", str(abs(value)).rjust(decimals + 1, "0")
    return sign + (f"{digits[:-decimals]}.{digits[-decimals:]}" if decimals else digits)
