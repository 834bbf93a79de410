import hashlib
import hmac
import os
import random
import re

import pytest
from florin_server.domain.accounts.account import SCOPES, ApiKey
from florin_server.domain.accounts.credentials import (
    KeyKind,
    ParsedKey,
    app_id,
    hash_key,
    new_key,
    parse_key,
)
from hypothesis import given
from hypothesis import strategies as st

KINDS = st.sampled_from(KeyKind)
SOURCES = st.integers().map(lambda seed: random.Random(seed).randbytes)
PARTNER_KEY = new_key(KeyKind.PARTNER, True, random.Random(1).randbytes).secret


@given(KINDS, st.booleans(), SOURCES)
def test_a_key_tells_its_mode_its_kind_and_its_id(kind, live, randbytes):
    key = new_key(kind, live, randbytes)
    assert parse_key(key.secret) == ParsedKey(live, kind, key.key_id)
    assert key.last4 == key.secret[-4:]


@pytest.mark.parametrize(
    ("kind", "live", "prefix"),
    [
        (KeyKind.PARTNER, True, "fl_live_pk_"),
        (KeyKind.PARTNER, False, "fl_test_pk_"),
        (KeyKind.WALLET, True, "fl_live_wk_"),
        (KeyKind.WALLET, False, "fl_test_wk_"),
    ],
)
def test_a_key_shows_what_it_is(kind, live, prefix):
    key = new_key(kind, live, os.urandom)
    assert re.fullmatch(prefix + key.key_id + r"_[0-9A-Za-z]{49}", key.secret)
    assert len(key.key_id) == 8


@given(st.data())
def test_a_mistyped_character_is_noticed(data):
    place = data.draw(st.integers(0, len(PARTNER_KEY) - 1))
    other = data.draw(st.characters(codec="ascii").filter(lambda ch: ch != PARTNER_KEY[place]))
    assert parse_key(PARTNER_KEY[:place] + other + PARTNER_KEY[place + 1 :]) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "fl_live_pk_",
        PARTNER_KEY[:-1],
        PARTNER_KEY + "0",
        PARTNER_KEY + "\n",
        "ключ",
        PARTNER_KEY.replace("_live_", "_test_"),
        PARTNER_KEY.replace("_pk_", "_wk_"),
    ],
)
def test_what_is_no_key_is_not_looked_up(text):
    assert parse_key(text) is None


def test_a_hash_is_peppered():
    expected = hmac.new(b"pepper", PARTNER_KEY.encode(), hashlib.sha256).digest()
    assert hash_key(b"pepper", PARTNER_KEY) == expected
    assert hash_key(b"other", PARTNER_KEY) != expected


def test_an_app_id_is_public_and_short():
    assert re.fullmatch(r"app_[0-9A-Za-z]{17}", app_id(os.urandom))


def test_secrets_and_hashes_do_not_show_when_printed():
    key = new_key(KeyKind.PARTNER, False, os.urandom)
    assert key.secret not in repr(key)
    stored = ApiKey(
        key_id=key.key_id,
        kind=KeyKind.PARTNER,
        live=False,
        partner_id="partner_1",
        hash=b"do-not-show",
        last4=key.last4,
        scopes=SCOPES,
        version_pin=None,
        created_at_us=0,
    )
    assert "do-not-show" not in repr(stored)


def test_the_scopes_are_the_documented_ones():
    assert {"read", "create", "refund", "settle", "manage"} == SCOPES
