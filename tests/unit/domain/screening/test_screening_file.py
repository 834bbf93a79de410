"""Test public files of blocked accounts: what is read, what is refused, and at what cost."""

from __future__ import annotations

import hashlib
import io
import tracemalloc
from datetime import date

import pytest
from florin_server.domain.screening import files
from florin_server.domain.screening.blocklist import (
    ScreeningList,
    describe_list_problem,
    find_address,
)

from tests.support.screening import make_sdn_list

A, B = "0x" + "aB" * 20, "0x" + "c1" * 20
SOLANA = "4" + "z" * 42
BITCOIN, TRON, MONERO = "1" + "B" * 33, "T" + "n" * 33, "4" + "9" * 94
DAY_US = 86_400_000_000


def read(content: str | bytes) -> files.ScreeningFile:
    return files.parse_screening_file(
        io.BytesIO(content.encode() if isinstance(content, str) else content)
    )


def test_sdn_addresses_are_recognized_by_form_and_not_by_ticker():
    content = make_sdn_list(
        ("ETH", A),
        ("XBT", f"  {B}  "),
        ("XBT", BITCOIN),
        ("ETH", TRON),
        ("ETH", A.lower()),
        ("SOL", SOLANA),
        ("SOL", MONERO),
    )
    listed = read(content)
    assert listed.addresses == {A.lower(), B, SOLANA}
    assert listed.skipped_count == 3
    assert listed.published == date(2027, 1, 14)
    assert listed.published_at_us == 1_799_884_800_000_000
    assert listed.digest == hashlib.sha256(content.encode()).hexdigest()


def test_the_tags_of_the_sdn_list_may_have_a_prefix():
    content = make_sdn_list(("ETH", A)).replace("xmlns=", "xmlns:sdn=")
    for name in ("Sanctions", "Feature", "VersionDetail", "FeatureType", "DateOfIssue", "Year"):
        for end in (" ", ">"):
            content = content.replace(f"<{name}{end}", f"<sdn:{name}{end}")
        content = content.replace(f"</{name}>", f"</sdn:{name}>")
    listed = read(content)
    assert (listed.addresses, listed.published) == ({A.lower()}, date(2027, 1, 14))


def test_a_plain_list_has_an_address_a_line_and_comments():
    listed = read(f"\ufeff# snapshot\n\n{A}\r\n  {B} # theirs\n{BITCOIN}\n#{SOLANA}\n{SOLANA}")
    assert listed.addresses == {A.lower(), B, SOLANA}
    assert (listed.skipped_count, listed.published, listed.published_at_us) == (1, None, None)


@pytest.mark.parametrize("size", [1, 7, 64])
def test_where_a_file_is_cut_into_pieces_means_nothing(monkeypatch, size):
    monkeypatch.setattr(files, "_CHUNK", size)
    assert read(make_sdn_list(("ETH", A), ("SOL", SOLANA))).addresses == {A.lower(), SOLANA}
    assert read(f"# é\n{A}\n{B}").addresses == {A.lower(), B}


BOMB = """<?xml version="1.0"?><!DOCTYPE Sanctions [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]>
<Sanctions>&b;</Sanctions>"""
OUTSIDE = """<?xml version="1.0"?><!DOCTYPE Sanctions [<!ENTITY a SYSTEM "file:///etc/passwd">]>
<Sanctions>&a;</Sanctions>"""


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (BOMB, "document type"),
        (OUTSIDE, "document type"),
        ("<!DOCTYPE html><html></html>", "document type"),
        ("<html></html>", "not the SDN list"),
        ("<Sanctions>&a;</Sanctions>", "undefined entity"),
        ("<Sanctions></Sanctions>", "no digital currency"),
        (make_sdn_list(("ETH", A))[:-20], "damaged XML"),
        (make_sdn_list(("ETH", A)).replace("</Profile>", ""), "damaged XML: mismatched tag"),
        (make_sdn_list(("ETH", A)).encode("utf-16"), "neither XML nor text"),
        (
            make_sdn_list(("ETH", A)).encode().replace(b"0x99", b"\xff\xfe"),
            "damaged XML: not well-formed",
        ),
        (make_sdn_list(("ETH", A * 20)), "text is too long"),
        (make_sdn_list(("ETH", A)).replace("<Month>1<", "<Month>13<", 1), "invalid date"),
        (make_sdn_list(("ETH", A)).replace("<Year>2027</Year>", ""), "invalid date"),
        (make_sdn_list(("ETH", A)).replace("<Year>2027<", "<Year>MMXXVII<"), "invalid date"),
        ("<Sanctions>" + "<a>" * 100, "in each other"),
        (b"\x89PNG\r\n\x1a\n", "neither XML nor text"),
        (f"{A} {B}", "more than an address"),
        ('["0x00", "0x01"]', "more than an address"),
        (f"{A}\n\0", "more than an address"),
    ],
)
def test_invalid_list_is_refused_with_a_reason(content, why):
    with pytest.raises(ValueError, match=why):
        read(content)


def test_text_before_the_list_is_ignored():
    content = make_sdn_list(("ETH", A))
    undeclared = content.partition("\n")[2]
    for before in ("\ufeff" + content, "\n\t " + undeclared, "\ufeff\n" + undeclared):
        assert read(before).addresses == {A.lower()}


OUTSIDE_OF_FEATURES = "<VersionDetail>" + B + "</VersionDetail>"
UNNUMBERED = "<FeatureType>Digital Currency Address - ETH</FeatureType>"
OF_NO_KIND = f"<Feature><VersionDetail>{B}</VersionDetail></Feature>"
ANOTHER_DATE = "<Year>1999</Year><Month>1</Month><Day>1</Day>"


@pytest.mark.parametrize(
    ("place", "more"),
    [
        ("<ReferenceValueSets>", OUTSIDE_OF_FEATURES),
        ("</DistinctParties>", OUTSIDE_OF_FEATURES),
        ("</DistinctParties>", UNNUMBERED + OF_NO_KIND),
        ("  <DateOfIssue ", f"<Head>{ANOTHER_DATE}</Head>"),
        ("</DistinctParties>", f"<DateOfIssue>{ANOTHER_DATE}</DateOfIssue>"),
        ("</DistinctParties>", ANOTHER_DATE),
        ("</DistinctParties>", f"<Year>{'9' * 600}</Year>"),
    ],
)
def test_similar_elements_elsewhere_are_ignored(place, more):
    content = make_sdn_list(("ETH", A))
    assert place in content
    listed = read(content.replace(place, more + place))
    assert (listed.addresses, listed.published) == ({A.lower()}, date(2027, 1, 14))
    assert listed.skipped_count == 0


def test_limits_are_reached_before_they_are_passed(monkeypatch):
    content = make_sdn_list(("ETH", A))
    deep = 64 - 2  # below the list and its parties
    for depth, fault in ((deep, None), (deep + 1, "in each other")):
        nested = "<a>" * depth + "</a>" * depth + "</DistinctParties>"
        check(content.replace("</DistinctParties>", nested), fault)
    for size, fault in ((512, None), (513, "text is too long")):
        check(content.replace(">Birthdate<", f">{'b' * size}<"), fault)
    for size, fault in ((2**20, None), (2**20 + 1, "line is too long")):
        check(f"{A}\n#".ljust(len(A) + 1 + size, "-"), fault)
    # the check runs after each chunk of the file, so it is approximate
    for size, fault in ((2**20 + 2**15, None), (2**20 + 2**17, "without end")):
        check(
            content.replace("<DistinctParties>", f"<!--{'-x' * (size // 2)}--><DistinctParties>"),
            fault,
        )
    for size, fault in ((len(content), None), (len(content) - 1, "the file has more than")):
        monkeypatch.setattr(files, "_FILE_MAX", size)
        check(content, fault)


def check(content: str, fault: str | None) -> None:
    if fault is None:
        assert read(content).addresses == {A.lower()}
    else:
        with pytest.raises(ValueError, match=fault):
            read(content)


class Long(io.RawIOBase):
    """A file that repeats itself, so that a reader without a limit reads too much."""

    def __init__(self, head: bytes, body: bytes, tail: bytes = b"", times: int = 500) -> None:
        self._rest, self._body, self._tail, self._times = head, body, tail, times
        self.read_size = 0

    def read(self, size: int = -1) -> bytes:
        while len(self._rest) < size and self._times:
            self._rest += self._body
            self._times -= 1
        if len(self._rest) < size:
            self._rest, self._tail = self._rest + self._tail, b""
        piece, self._rest = self._rest[:size], self._rest[size:]
        self.read_size += len(piece)
        return piece


@pytest.mark.parametrize(
    ("head", "body"),
    [
        (b"<Sanctions><!-- ", b"a"),
        (b'<Sanctions a="', b"a"),
        (b"<Sanctions><", b"a"),
        (b"", b"0"),
    ],
)
def test_endless_element_is_refused_without_being_read_to_its_end(head, body):
    file = Long(head, body * 10_000)
    with pytest.raises(ValueError, match="without end|too long"):
        files.parse_screening_file(file)
    assert file.read_size < 4 * 2**20


def test_a_file_without_end_is_not_read_for_ever(monkeypatch):
    monkeypatch.setattr(files, "_FILE_MAX", 2**20)
    file = Long(b"<Sanctions>", b"<a></a>" * 10_000)
    with pytest.raises(ValueError, match="more than 1048576 bytes"):
        files.parse_screening_file(file)
    assert file.read_size < 2**21


def test_a_large_list_takes_little_memory():
    head, party, tail = make_sdn_list(("ETH", A)).encode().partition(b"<DistinctParty FixedRef")
    other = b'<DistinctParty FixedRef="1"><Profile ID="1">some text</Profile></DistinctParty>\n'
    file = Long(head, other * 1000, party + tail, times=100)
    tracemalloc.start()
    try:
        listed = files.parse_screening_file(file)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert file.read_size > 8_000_000
    assert listed.addresses == {A.lower()}
    assert peak < 2**20


@pytest.mark.parametrize(
    ("text", "namespace"),
    [
        (A, "eip155"),
        (A.upper(), "eip155"),
        (SOLANA, "solana"),
        ("1" * 32, "solana"),
        ("1" * 33, None),
        (A[2:], None),
        (A + "0", None),
        (A[:-1], None),
        (SOLANA + "zz", None),
        ("z" * 44, None),
        ("0" + SOLANA[1:], None),
        (BITCOIN, None),
        (TRON, None),
        (MONERO, None),
        ("bc1q" + "a" * 38, None),
        ("", None),
        ("é" * 43, None),
    ],
)
def test_address_form_determines_its_chain_namespace(text, namespace):
    address = find_address(text)
    assert (address[0] if address else None) == namespace


def of_age(days: float, published: bool, now_us: int = 100 * DAY_US) -> ScreeningList:
    at_us = now_us - int(days * DAY_US)
    return ScreeningList("sdn", "", at_us if published else None, 0 if published else at_us, 1)


@pytest.mark.parametrize("published", [True, False])
def test_a_list_is_too_old_after_its_last_day(published):
    now_us = 100 * DAY_US
    for days, output in ((0, ""), (30.99, ""), (31, "screening list sdn is 31 days old")):
        for needed in (True, False):
            lists = [of_age(1, published), of_age(days, published)]
            assert describe_list_problem(lists, now_us, 30, required=needed) == output


def test_missing_list_is_a_problem_only_where_required():
    assert describe_list_problem([], 0, 30, required=False) == ""
    output = "no screening list is imported: run florin sanctions import FILE"
    assert describe_list_problem([], 0, 30, required=True) == output


def test_every_outdated_list_is_reported():
    both = [of_age(40, True), of_age(50, False)]
    output = "screening list sdn is 40 days old; screening list sdn is 50 days old"
    assert describe_list_problem(both, 100 * DAY_US, 30, required=False) == output
