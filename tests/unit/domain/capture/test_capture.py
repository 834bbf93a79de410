"""Test buyer data: its schema, its accepted forms, and prefilled values."""

from __future__ import annotations

import base64
import json
import os

import pytest
from florin_server.domain.capture import buyer_data
from florin_server.domain.cipher import Cipher, Ciphertext, DecryptionError
from florin_server.domain.errors import FieldIssue
from jsonschema_rs import Draft202012Validator

BIRTH = {"pobCountry": "DE", "pobAddress": "Köln"}
RESIDENCE = {"porCountry": "FR", "porAddress": "1 rue de la Paix, Paris"}
WHO = {"fullName": "Ada Example", "dob": "1990-12-31", "tosConfirmed": True}
DATA = {**WHO, **BIRTH}


def items(data):
    return [{"id": name, "value": value} for name, value in data.items()]


def faults(value) -> set[str]:
    return {issue.field for issue in buyer_data.parse_buyer_data(value)[1]}


# the schema


@pytest.mark.parametrize("control", ["\x00", "\n", "\x1b", "\x9b", "\u202e", "\u2066", "\ud800"])
@pytest.mark.parametrize("name", ["fullName", "pobAddress"])
def test_data_with_control_characters_is_refused_by_its_field(name, control):
    _, issues = buyer_data.parse_buyer_data({**DATA, name: f"a{control}b"})
    assert issues == [FieldIssue(name, "has control characters")]
    assert buyer_data.parse_buyer_data(items({**DATA, name: f"a{control}b"}))[1] == issues


def test_schema_is_valid_and_matches_the_fields():
    schema = json.loads(buyer_data.SCHEMA_JSON)
    Draft202012Validator(schema)
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["fullName", "dob", "tosConfirmed"]
    assert schema["anyOf"] == [{"required": [*BIRTH]}, {"required": [*RESIDENCE]}]
    assert [field.id for field in buyer_data.BUYER_DATA_FIELDS] == list(schema["properties"])
    assert [field.id for field in buyer_data.BUYER_DATA_FIELDS if field.required] == schema[
        "required"
    ]
    kinds = {field.id: field.kind for field in buyer_data.BUYER_DATA_FIELDS}
    assert kinds.pop("dob") == "date"
    assert kinds.pop("tosConfirmed") == "checkbox"
    assert set(kinds.values()) == {"text"}


@pytest.mark.parametrize(
    "data",
    [
        DATA,
        {**WHO, **RESIDENCE},
        {**DATA, **RESIDENCE},
        {**DATA, "porCountry": "FR"},
        {**DATA, "pobAddress": "x" * 200},
        {},
        WHO,
        {**WHO, "pobCountry": "DE"},
        {**WHO, "pobAddress": "Köln"},
        {**WHO, "pobCountry": "DE", "porAddress": "Paris"},
        {**BIRTH, **RESIDENCE},
        *({k: v for k, v in DATA.items() if k != gone} for gone in DATA),
        {**DATA, "fullName": 1},
        {**DATA, "fullName": ["Ada"]},
        {**DATA, "tosConfirmed": False},
        {**DATA, "tosConfirmed": 1},
        {**DATA, "tosConfirmed": "yes"},
        {**DATA, "dob": "1990-02-30"},
        {**DATA, "dob": "31.12.1990"},
        {**DATA, "dob": "19901231"},
        {**DATA, "dob": "1990-W52-1"},
        {**DATA, "dob": 1990},
        {**DATA, "pobCountry": "de"},
        {**DATA, "pobCountry": "DEU"},
        {**DATA, "pobAddress": "x" * 201},
        {**DATA, "pobAddress": True},
        {**DATA, "passport": "C01X00T47"},
        "Ada",
        5,
    ],
)
def test_accepted_buyer_data_is_exactly_valid_by_the_schema(data):
    checker = Draft202012Validator(dict(buyer_data.SCHEMA), validate_formats=True)
    read, issues = buyer_data.parse_buyer_data(data)
    assert (issues == []) is checker.is_valid(data)
    if not issues:
        assert read == data


def test_every_fault_is_named_and_no_value_is_repeated():
    data = {"fullName": "MARKER", "dob": "MARKER", "pobCountry": "MARKER", "x MARKER": 1}
    assert buyer_data.parse_buyer_data(data)[1] == [
        FieldIssue("dob", "must be a date like 1990-12-31"),
        FieldIssue("pobCountry", "must be two capital letters, like DE"),
        FieldIssue("", "has an unknown member"),
        FieldIssue("tosConfirmed", "is required"),
        FieldIssue(
            "pobAddress", "is required: enter a place of birth or of residence, with its country"
        ),
    ]


def test_partially_entered_place_is_the_place_to_complete():
    assert faults({**WHO, "porCountry": "FR"}) == {"porAddress"}
    assert faults({**WHO, "pobAddress": "Köln"}) == {"pobCountry"}
    assert faults(WHO) == {"pobCountry", "pobAddress"}
    assert faults({**WHO, "porCountry": "fr", "porAddress": "Paris"}) == {"porCountry"}


def test_name_has_at_most_1000_characters():
    assert faults({**DATA, "fullName": "x" * 1000}) == set()
    assert faults({**DATA, "fullName": "x" * 1001}) == {"fullName"}


def test_a_country_ends_where_its_line_does():
    assert faults({**DATA, "pobCountry": "DE\n"}) == {"pobCountry"}


# the forms


@pytest.mark.parametrize("form", [dict, items, lambda data: {"fields": items(data)}])
def test_three_input_forms_parse_to_the_same_data(form):
    assert buyer_data.parse_buyer_data(form(DATA)) == (DATA, [])
    assert buyer_data.parse_buyer_data(form({**DATA, "tosConfirmed": "true"})) == (DATA, [])
    assert [
        i.field for i in buyer_data.parse_buyer_data(form({**DATA, "tosConfirmed": "false"}))[1]
    ] == ["tosConfirmed"]
    # a person can have this name
    assert buyer_data.parse_buyer_data(form({**DATA, "fullName": "true"}))[0]["fullName"] == "true"
    # an empty field counts as absent
    assert buyer_data.parse_buyer_data(form({**DATA, "porCountry": "", "porAddress": None})) == (
        DATA,
        [],
    )
    assert [i.field for i in buyer_data.parse_buyer_data(form({**DATA, "fullName": ""}))[1]] == [
        "fullName"
    ]


def test_items_of_no_form_are_named():
    value = [1, {"id": 2}, {"value": 3}, {"id": "dob", "value": "1990-12-31"}, {"id": "dob"}]
    assert [issue.field for issue in buyer_data.parse_buyer_data(value)[1]][:4] == [
        "[0]",
        "[1]",
        "[2]",
        "[4].id",
    ]


@pytest.mark.parametrize("value", [None, {}, [], {"fields": []}])
def test_empty_buyer_data_is_recognized(value):
    assert buyer_data.is_empty(value)


@pytest.mark.parametrize("value", [0, "", "x", False, {"fields": 1}, [None], {"x": 1}])
def test_something_wrong_is_not_nothing(value):
    assert buyer_data.parse_buyer_data(value)[1]
    assert not buyer_data.is_empty(value)


# prefill


KNOWN = {"fullName": "Ø>?ÿ Ada", "dob": "1990-12-31", "pobAddress": "a~b?c>>"}


@pytest.mark.parametrize("pad", [True, False])
@pytest.mark.parametrize("encode", [base64.urlsafe_b64encode, base64.b64encode])
@pytest.mark.parametrize("escaped", [True, False])
def test_prefill_is_read_in_every_alphabet(encode, pad, escaped):
    text = encode(json.dumps(KNOWN, ensure_ascii=False).encode()).decode()
    if not pad:
        text = text.rstrip("=")
    if not escaped:
        text = text.replace("+", " ")
    assert buyer_data.parse_prefill(text) == KNOWN


@pytest.mark.parametrize("name", ["Ada", "Adam", "Adams"])
def test_prefill_of_any_length_is_read_without_padding(name):
    text = base64.b64encode(json.dumps({"fullName": name}).encode()).decode()
    assert (
        buyer_data.parse_prefill(text.rstrip("="))
        == buyer_data.parse_prefill(text)
        == {"fullName": name}
    )


def test_prefill_begins_the_form_and_never_confirms_terms():
    result = {**DATA, "fullName": 7, "passport": "x", "porAddress": None}
    text = base64.b64encode(json.dumps(result).encode()).decode()
    assert buyer_data.parse_prefill(text) == {"dob": "1990-12-31", **BIRTH}


@pytest.mark.parametrize(
    "text",
    [
        *("", "%", "x", "ä", "====", "a b c"),
        base64.b64encode(b"{").decode(),
        base64.b64encode(b"[1]").decode(),
        base64.b64encode(b"\xff").decode(),
        base64.b64encode(b"[" * 5000).decode(),
        base64.b64encode(json.dumps({"fullName": "x" * 8192}).encode()).decode(),
    ],
)
def test_prefill_that_cannot_be_read_is_no_prefill(text):
    assert buyer_data.parse_prefill(text) == {}


# the envelope


OLD, NEW = b"\x01" * 32, b"\x02" * 32


def test_an_envelope_opens_with_its_key_where_it_belongs():
    sealed = Cipher([OLD]).encrypt(b"Ada", "pay_1|account", os.urandom)
    assert b"Ada" not in sealed.ciphertext
    assert Cipher([OLD]).decrypt(sealed, "pay_1|account") == b"Ada"
    # a key was added
    assert Cipher([OLD, NEW]).decrypt(sealed, "pay_1|account") == b"Ada"
    renewed = Cipher([OLD, NEW]).encrypt(b"Ada", "pay_1|account", os.urandom)
    assert renewed.key_id != sealed.key_id
    assert Cipher([NEW]).decrypt(renewed, "pay_1|account") == b"Ada"


@pytest.mark.parametrize("keys", [[], [NEW]])
def test_an_envelope_whose_key_is_gone_is_lost(keys):
    sealed = Cipher([OLD]).encrypt(b"Ada", "place", os.urandom)
    with pytest.raises(DecryptionError):
        Cipher(keys).decrypt(sealed, "place")


def test_an_envelope_elsewhere_or_changed_is_lost():
    seal = Cipher([OLD])
    sealed = seal.encrypt(b"Ada", "pay_1|account", os.urandom)
    with pytest.raises(DecryptionError):
        seal.decrypt(sealed, "pay_2|account")
    changed = bytes([sealed.ciphertext[0] ^ 1]) + sealed.ciphertext[1:]
    with pytest.raises(DecryptionError):
        seal.decrypt(Ciphertext(sealed.key_id, sealed.nonce, changed), "pay_1|account")


def test_equal_texts_are_sealed_differently():
    seal = Cipher([OLD])
    created = {seal.encrypt(b"Ada", "place", os.urandom).ciphertext for _ in range(5)}
    assert len(created) == 5


def test_derived_value_depends_on_the_key_and_every_part():
    result = {
        item
        for keys in ([OLD], [NEW], [NEW, OLD])
        for parts in (("a", "b", "c"), ("a", "bc"), ("ab", "c"), ("a", "b"))
        for item in Cipher(keys).derive(*parts)
    }
    assert len(result) == 8
    assert {len(item) for item in result} == {32}
    # with the newest key, which is the last, first
    assert Cipher([OLD, NEW]).derive("a", "b") == (
        *Cipher([NEW]).derive("a", "b"),
        *Cipher([OLD]).derive("a", "b"),
    )
    with pytest.raises(LookupError):
        Cipher([]).derive("a", "b")


def test_keys_do_not_show_in_messages():
    assert "1" not in repr(Cipher([OLD]))


def test_derived_values_and_key_ids_are_stable():
    """Stored envelopes contain the names, and published links contain derived values."""
    seal = Cipher((bytes(range(32)),))
    assert seal.encrypt(b"x", "place", bytes).key_id == "aa16f6634e25cfa7"
    (derived,) = seal.derive("form", "a", "b")
    assert derived.hex() == "048b8396c84ff831d838b6015b69ca6868d035c0f22e923b640def204fb614e9"


def test_invalid_form_type_is_reported_once_with_its_place():
    for value in ("text", 7, None):
        assert buyer_data.parse_buyer_data(value) == (
            {},
            [FieldIssue("", "must be an object or an array")],
        )


def test_valid_items_are_read_beside_invalid_items():
    twice = [*items(DATA), {"id": "fullName", "value": "Eve"}]
    assert buyer_data.parse_buyer_data(twice) == (
        DATA,
        [FieldIssue(f"[{len(DATA)}].id", "occurs twice")],
    )
    nameless = [*items(DATA), {"value": "Eve"}]
    assert buyer_data.parse_buyer_data(nameless) == (
        DATA,
        [FieldIssue(f"[{len(DATA)}]", "must have an id and a value")],
    )


def test_empty_field_does_not_stop_the_parsing():
    assert buyer_data.parse_buyer_data({"porCountry": "", "porAddress": None, **DATA}) == (DATA, [])


def test_unrequested_field_does_not_stop_the_parsing():
    unasked = FieldIssue("", "has an unknown member")
    assert buyer_data.parse_buyer_data({"shoeSize": "42", **DATA}) == (DATA, [unasked])


@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [
        ("tosConfirmed", "maybe", "must be confirmed"),
        ("tosConfirmed", False, "must be confirmed"),
        ("fullName", 7, "must be a string"),
    ],
)
def test_invalid_field_is_reported_in_words(name, value, fault):
    assert buyer_data.parse_buyer_data({**DATA, name: value})[1] == [FieldIssue(name, fault)]


def test_the_longest_prefill_is_read():
    def of(size: int) -> str:
        empty = json.dumps({"fullName": ""}).encode()
        name = "A" * (size * 3 // 4 - len(empty))
        return base64.b64encode(json.dumps({"fullName": name}).encode()).decode()

    longest = of(buyer_data.PREFILL_BYTES_MAX)
    assert len(longest) == buyer_data.PREFILL_BYTES_MAX
    assert buyer_data.parse_prefill(longest).keys() == {"fullName"}
    assert buyer_data.parse_prefill(of(buyer_data.PREFILL_BYTES_MAX + 4)) == {}


def test_prefill_holds_nothing_that_is_no_base64():
    result = base64.b64encode(json.dumps({"fullName": "Ada", "tosConfirmed": "true"}).encode())
    assert buyer_data.parse_prefill(result.decode()) == {"fullName": "Ada"}
    for wrong in ("!", "!!!!"):
        assert buyer_data.parse_prefill(wrong + result.decode()) == {}
