import base64
import json

import pytest
from florin_server.domain.payments.results import (
    OutputKind,
    OutputMatch,
    OutputVerdict,
    compute_digest,
    flatten_results,
    get_output_kind,
    match_outputs,
)
from hypothesis import given
from hypothesis import strategies as st

OK, MISMATCH, UNREADABLE = OutputVerdict.OK, OutputVerdict.MISMATCH, OutputVerdict.UNREADABLE
# the verdicts for a signature, a transaction hash and a Solana transaction, in this order
OUTPUTS = {
    "hash": ("0x" + "ab" * 32, MISMATCH, OK, MISMATCH),
    "signature": ("0x" + "ab" * 65, OK, MISMATCH, MISMATCH),
    "compact signature": ("0x" + "AB" * 64, OK, MISMATCH, MISMATCH),
    "contract signature": ("0x" + "ab" * 900, OK, MISMATCH, MISMATCH),
    "transaction": (base64.b64encode(bytes(65)).decode(), MISMATCH, MISMATCH, OK),
    "long transaction": (base64.b64encode(bytes(1232)).decode(), MISMATCH, MISMATCH, OK),
    "object": ({"transaction": "AQ=="}, MISMATCH, MISMATCH, OK),
    "empty object": ({}, MISMATCH, MISMATCH, OK),
}
NOISE = {
    "empty": "",
    "prefix": "0x",
    "words": "user rejected the request",
    "hex of 31 bytes": "0x" + "ab" * 31,
    "hex of 33 bytes": "0x" + "ab" * 33,
    "hex of 63 bytes": "0x" + "ab" * 63,
    "half a byte": "0x" + "ab" * 64 + "c",
    "base64 with the prefix of hex": "0x" + "zz" * 49,
    "hex with a line end": "0x" + "ab" * 65 + "\n",
    "capital prefix": "0X" + "ab" * 65,
    "base64 of 64 bytes": base64.b64encode(bytes(64)).decode(),
    "base64 for URLs": base64.urlsafe_b64encode(b"\xff" * 66).decode(),
    "base64 with a line end": base64.b64encode(bytes(66)).decode() + "\n",
    "base64 cut off": base64.b64encode(bytes(66)).decode()[:-1],
    "letters beyond ASCII": "é" * 100,
    "lone surrogate": "\ud800",
    "null": None,
    "number": 7,
    "truth": True,
    "list": ["0x" + "ab" * 65],
}
SEEN = (OutputKind.SIGNATURE, OutputKind.TX_HASH, OutputKind.SOLANA_TX)
NOT_JSON = ["", "0x12", "{", '"open', "NaN", "[Infinity]", "[" * 100_000]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@pytest.mark.parametrize("place", range(3), ids=[kind.value for kind in SEEN])
@pytest.mark.parametrize("row", OUTPUTS.values(), ids=OUTPUTS)
def test_well_formed_output_matches_or_mismatches_its_kind(row, place):
    match = match_outputs([SEEN[place]], [json.dumps(row[0])])
    expected = row[1 + place]
    assert match == OutputMatch(expected, None if expected is OK else 0)


@pytest.mark.parametrize("kind", SEEN)
@pytest.mark.parametrize("value", NOISE.values(), ids=NOISE)
def test_output_of_unknown_form_is_unreadable(value, kind):
    assert match_outputs([kind], [json.dumps(value)]) == OutputMatch(UNREADABLE, 0)


@pytest.mark.parametrize("kind", OutputKind)
@pytest.mark.parametrize("text", NOT_JSON, ids=range(len(NOT_JSON)))
def test_output_that_is_not_json_is_unreadable(text, kind):
    assert match_outputs([kind], [text]) == OutputMatch(UNREADABLE, 0)


@given(JSON)
def test_a_method_yet_unknown_takes_any_json(value):
    assert match_outputs([OutputKind.ANY], [json.dumps(value)]) == OutputMatch(OK)


@given(JSON, st.sampled_from(OutputKind))
def test_no_json_breaks_the_matching(value, kind):
    assert match_outputs([kind], [json.dumps(value)]).verdict in OutputVerdict


SIGNATURE, HASH, WORDS = (json.dumps(text) for text in ("0x" + "ab" * 65, "0x" + "ab" * 32, "no"))
APPROVE_AND_SIGN = [OutputKind.TX_HASH, OutputKind.SIGNATURE]


@pytest.mark.parametrize(
    ("outputs", "expected_match"),
    [
        ([HASH, SIGNATURE], OutputMatch(OK)),
        ([SIGNATURE, HASH], OutputMatch(MISMATCH, 0)),
        ([HASH, HASH], OutputMatch(MISMATCH, 1)),
        ([WORDS, WORDS], OutputMatch(UNREADABLE, 0)),
        ([HASH, WORDS], OutputMatch(UNREADABLE, 1)),
        ([WORDS, HASH], OutputMatch(MISMATCH, 1)),
        ([HASH], OutputMatch(MISMATCH)),
        ([], OutputMatch(MISMATCH)),
        ([HASH, SIGNATURE, SIGNATURE], OutputMatch(MISMATCH)),
        ([WORDS], OutputMatch(MISMATCH)),
    ],
)
def test_outputs_are_matched_by_number_and_then_by_place(outputs, expected_match):
    assert match_outputs(APPROVE_AND_SIGN, outputs) == expected_match


@pytest.mark.parametrize(
    ("method", "kind"),
    [
        ("eth_signTypedData_v4", OutputKind.SIGNATURE),
        ("personal_sign", OutputKind.SIGNATURE),
        ("eth_sendTransaction", OutputKind.TX_HASH),
        ("solana_signTransaction", OutputKind.SOLANA_TX),
        ("wallet_sendCalls", OutputKind.ANY),
    ],
)
def test_method_maps_to_its_output_kind(method, kind):
    assert get_output_kind(method) is kind


def test_separate_results_are_read_like_a_combined_result():
    assert (
        flatten_results([[HASH], [SIGNATURE]])
        == flatten_results([[HASH, SIGNATURE]])
        == (HASH, SIGNATURE)
    )
    assert flatten_results([]) == flatten_results([[], []]) == ()


def test_equal_submissions_have_equal_digests():
    assert compute_digest("option", [HASH, SIGNATURE]) == compute_digest(
        "option", (HASH, SIGNATURE)
    )


def test_json_that_means_the_same_counts_as_the_same():
    text, other = '{"a": 1, "b": "\\u00e9"}', '{"b":"é","a":1}'
    assert compute_digest("option", [text]) == compute_digest("option", [other])


@pytest.mark.parametrize(
    ("option_id", "outputs"),
    [
        ("other", [HASH, SIGNATURE]),
        ("option", [SIGNATURE, HASH]),
        ("option", [HASH]),
        ("option", [HASH, SIGNATURE, SIGNATURE]),
        ("option", [HASH, SIGNATURE.upper()]),
        ("option", [HASH + SIGNATURE]),
        ("option", []),
    ],
)
def test_other_submissions_have_other_digests(option_id, outputs):
    assert compute_digest(option_id, outputs) != compute_digest("option", [HASH, SIGNATURE])


@given(st.lists(st.text()), st.lists(st.text()))
def test_digests_differ_unless_the_outputs_are_equal(outputs, other_outputs):
    texts = [[json.dumps(text) for text in texts] for texts in (outputs, other_outputs)]
    assert (compute_digest("o", texts[0]) == compute_digest("o", texts[1])) == (
        outputs == other_outputs
    )


def test_a_digest_never_changes():
    """Digests are stored: after a change, an upgrade would refuse repeated confirms."""
    output = compute_digest("opt_1", ['"0xab"', '{"b": 1, "a": [true]}']).hex()
    assert output == "265eddbff904962ad444f03947f7e15c1b37335d6a1c0d7b5af1ba785d6a427f"
