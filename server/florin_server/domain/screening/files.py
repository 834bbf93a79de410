"""Reads public files of blocked accounts.

They come from elsewhere and are large: they are read once, in pieces, and only the addresses are
stored. XML must not declare entities or name other files, so it cannot grow nor reach out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any, BinaryIO, NoReturn
from xml.parsers import expat

from florin_server.domain.screening.blocklist import find_address

_CHUNK = 65_536
# ten times the largest public file
_FILE_MAX = 2**30
# a tag with its attributes, a comment, a line; the parser has to hold one as a whole
_PIECE_MAX = 2**20
# four times the nesting of the public list
_DEPTH_MAX = 64
# an address, a ticker, a part of a date
_TEXT_MAX = 512
_CURRENCY = "Digital Currency Address"


@dataclass(slots=True)
class ScreeningFile:
    """The content of a file. `skipped_count` addresses are of no supported chain.

    `digest` is the file's SHA-256 in hex; `published` is None if the file does not say.
    """

    digest: str = ""
    published: date | None = None
    addresses: set[str] = field(default_factory=set)
    skipped_count: int = 0

    @property
    def published_at_us(self) -> int | None:
        """Return the first moment of that day, in UTC."""
        if self.published is None:
            return None
        day = datetime(self.published.year, self.published.month, self.published.day, tzinfo=UTC)
        return int(day.timestamp()) * 1_000_000

    def add(self, text: str) -> None:
        """Add an address as the file writes it."""
        if (address := find_address(text)) is None:
            self.skipped_count += 1
        else:
            self.addresses.add(address[1])


def parse_screening_file(file: BinaryIO) -> ScreeningFile:
    """Read the SDN list in its advanced XML form, or text with one address a line.

    ValueError, with a sentence, for anything else, and for a file that is damaged.
    """
    listed = ScreeningFile()
    digest = hashlib.sha256()
    first = file.read(_CHUNK)
    take = (
        _make_xml_reader(listed)
        if first.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"<"
        else _make_text_reader(listed)
    )
    for chunk in _chunks(first, file):
        digest.update(chunk)
        take(chunk, last=False)
    take(b"", last=True)
    listed.digest = digest.hexdigest()
    return listed


def _chunks(first: bytes, file: BinaryIO) -> Iterator[bytes]:
    size, chunk = 0, first
    while chunk:
        size += len(chunk)
        if size > _FILE_MAX:
            raise ValueError(f"the file has more than {_FILE_MAX} bytes")
        yield chunk
        chunk = file.read(_CHUNK)


def _make_text_reader(listed: ScreeningFile) -> Callable[..., None]:
    rest = b""

    def take(chunk: bytes, *, last: bool) -> None:
        nonlocal rest
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > _PIECE_MAX:
            raise ValueError("a line is too long: this is not a list of addresses")
        for line in [*lines, rest] if last else lines:
            if word := _parse_line(line):
                listed.add(word)

    return take


def _parse_line(line: bytes) -> str:
    """Return the part of a line before a comment; empty if it has none."""
    try:
        text = line.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("neither XML nor text in UTF-8") from None
    words = text.partition("#")[0].split()
    if len(words) > 1 or "\0" in text:
        raise ValueError("a line has more than an address: this is not a list of addresses")
    return words[0] if words else ""


def _make_xml_reader(listed: ScreeningFile) -> Callable[..., None]:
    sdn = _SdnParser(listed)
    # the list is UTF-8; other encodings could hide content
    parser = expat.ParserCreate("utf-8")
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = _reject_doctype
    parser.StartElementHandler = sdn.start
    parser.EndElementHandler = sdn.end
    parser.CharacterDataHandler = sdn.data
    fed = 0

    def take(chunk: bytes, *, last: bool) -> None:
        nonlocal fed
        fed += len(chunk)
        try:
            parser.Parse(chunk, last)
        except expat.ExpatError as error:
            raise ValueError(f"damaged XML: {error}") from error
        if fed - parser.CurrentByteIndex > _PIECE_MAX + _CHUNK:
            raise ValueError("damaged XML: a tag or a comment without end")
        if last:
            sdn.close()

    return take


def _reject_doctype(*_declared: Any) -> NoReturn:
    raise ValueError("the XML has a document type: this is not the SDN list")


class _SdnParser:
    """The SDN list in its advanced XML form, element by element.

    Kinds of features are declared before the features, and refer to each other by number.
    """

    def __init__(self, listed: ScreeningFile) -> None:
        self._screening_file = listed
        self._depth = 0
        self._currencies: set[str] = set()
        self._kind = ""  # the kind of feature that is being declared
        self._in_address = False  # within a feature that is an address
        self._date: dict[str, int] | None = None  # within the date of the whole list
        self._text: list[str] | None = None  # the text being read, if it is needed

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Handle an opening tag."""
        name = _strip_prefix(tag)
        self._depth += 1
        if self._depth == 1 and name != "Sanctions":
            raise ValueError(f"the XML is about {name[:80]!r}: this is not the SDN list")
        if self._depth > _DEPTH_MAX:
            raise ValueError("damaged XML: too many elements in each other")
        if name == "DateOfIssue" and self._depth == 2:
            self._date = {}
        elif name == "Feature":
            self._in_address = attributes.get("FeatureTypeID") in self._currencies
        elif name == "FeatureType":
            self._kind, self._text = attributes.get("ID", ""), []
        elif (name == "VersionDetail" and self._in_address) or (
            name in {"Year", "Month", "Day"} and self._date is not None
        ):
            self._text = []

    def data(self, text: str) -> None:
        """Handle text between tags."""
        if self._text is not None:
            self._text.append(text)
            if sum(map(len, self._text)) > _TEXT_MAX:
                raise ValueError("damaged XML: a text is too long")

    def end(self, tag: str) -> None:
        """Handle a closing tag."""
        name, self._depth = _strip_prefix(tag), self._depth - 1
        if name == "Feature":
            self._in_address = False
        elif name == "DateOfIssue" and self._date is not None:
            self._screening_file.published, self._date = _parse_day(self._date), None
        elif self._text is not None:
            self._take(name, "".join(self._text).strip())
            self._text = None

    def _take(self, name: str, text: str) -> None:
        if name == "FeatureType" and text.startswith(_CURRENCY):
            self._currencies.add(self._kind)
        elif name == "VersionDetail" and text:
            self._screening_file.add(text)
        elif self._date is not None and text.isdecimal():
            self._date[name] = int(text)

    def close(self) -> None:
        """Check that the list is complete."""
        if not self._currencies:
            raise ValueError("the XML declares no digital currency addresses")


def _strip_prefix(tag: str) -> str:
    """Return a tag without the prefix of its namespace, which has changed over the years."""
    return tag.rpartition(":")[2]


def _parse_day(parts: dict[str, int]) -> date:
    try:
        return date(parts["Year"], parts["Month"], parts["Day"])
    except (KeyError, ValueError, OverflowError):
        raise ValueError("the XML has an invalid date of issue") from None
