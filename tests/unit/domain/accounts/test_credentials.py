import hashlib
import hmac
import os
import random
import re

import pytest
from florin_server.domain.accounts.account import SCOPES, ApiKey
from florin_server.domain.accounts.credentials import (
    ApiKeyKind,
    ParsedApiKey,
    generate_app_id,
    generate_key,
    hash_key,
    parse_key,
)
from hypothesis import given
from hypothesis import strategies as st

KINDS = st.sampled_from(ApiKeyKind)
SOURCES = st.integers().map(lambda seed: random.Random(seed).randbytes)
PARTNER_KEY = generate_key(ApiKeyKind.PARTNER, True, random.Random(1).randbytes).secret


@given(KINDS, st.booleans(), SOURCES)
def test_parsed_key_returns_its_mode_kind_and_id(kind, live, randbytes):
    key = generate_key(kind, live, randbytes)
    assert parse_key(key.secret) == ParsedApiKey(live, kind, key.key_id)
    assert key.last4 == key.secret[-4:]


@pytest.mark.parametrize(
    ("kind", "live", "prefix"),
    [
        (ApiKeyKind.PARTNER, True, "fl_live_pk_"),
        (ApiKeyKind.PARTNER, False, "fl_test_pk_"),
        (ApiKeyKind.WALLET, True, "fl_live_wk_"),
        (ApiKeyKind.WALLET, False, "fl_test_wk_"),
    ],
)
def test_key_text_shows_its_kind_mode_and_id(kind, live, prefix):
    key = generate_key(kind, live, os.urandom)
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
def test_invalid_key_text_is_not_parsed(text):
    assert parse_key(text) is None


def test_a_hash_is_peppered():
    expected = hmac.new(b"pepper", PARTNER_KEY.encode(), hashlib.sha256).digest()
    assert hash_key(b"pepper", PARTNER_KEY) == expected
    assert hash_key(b"other", PARTNER_KEY) != expected


def test_an_app_id_is_public_and_short():
    assert re.fullmatch(r"app_[0-9A-Za-z]{17}", generate_app_id(os.urandom))


def test_secrets_and_hashes_do_not_show_when_printed():
    key = generate_key(ApiKeyKind.PARTNER, False, os.urandom)
    assert key.secret not in repr(key)
    stored = ApiKey(
        key_id=key.key_id,
        kind=ApiKeyKind.PARTNER,
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
