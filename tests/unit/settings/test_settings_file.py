"""Test which florin.toml counts: the one in the home, or else in the current folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from florin_server.settings import Settings
from pydantic import ValidationError
from pydantic_settings import SettingsError


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """Return the folder in which a command runs."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name in ("FLORIN_HOME", "FLORIN_QUOTE_S"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def home(tmp_path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def write(folder: Path, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "florin.toml"
    path.write_text(text)
    return path


def test_the_file_of_the_home_counts_however_the_home_is_named(here, home, monkeypatch):
    own = write(home, "quote_s = 11")
    assert Settings().quote_s == 300
    given_settings = Settings(home=home)
    monkeypatch.setenv("FLORIN_HOME", str(home))
    for settings in (given_settings, Settings()):
        assert (settings.home, settings.quote_s, settings.list_files()) == (home, 11, (own,))
    # the environment still takes precedence over the file
    monkeypatch.setenv("FLORIN_QUOTE_S", "12")
    assert Settings().quote_s == 12
    assert Settings(quote_s=13).quote_s == 13


def test_the_usual_home_has_a_file_of_its_own_too(here):
    own = write(here / ".florin", "quote_s = 11")
    assert Settings().quote_s == 11
    assert Settings().list_files() == (own.relative_to(here),)


def test_only_a_single_settings_file_applies(here, home):
    write(here, "quote_s = 11\namount_min = 7")
    assert Settings(home=home).quote_s == 11
    write(home, "quote_s = 12")
    settings = Settings(home=home)
    assert (settings.quote_s, settings.amount_min) == (12, 1)
    assert settings.list_files() == (home / "florin.toml", Path("florin.toml"))
    assert (Settings().quote_s, Settings().amount_min) == (11, 7)


def test_a_file_may_name_the_home_whose_file_counts(here, home):
    write(here, f'home = "{home}"\nquote_s = 11')
    assert (Settings().home, Settings().quote_s) == (home, 11)
    write(home, "quote_s = 12")
    assert (Settings().home, Settings().quote_s) == (home, 12)
    write(home, f'quote_s = 13\nhome = "{home.parent}/here/../home"')
    assert Settings().quote_s == 13
    write(home, f'home = "{here}"')
    for values in ({}, {"home": home}):
        with pytest.raises(SettingsError, match=r"home/florin\.toml: .* names another"):
            Settings(**values)


def test_files_are_named_from_the_home_that_names_them(here, home):
    chain = {
        "chain_id": 8453,
        "settler": "0x" + "ab" * 20,
        "treasury": "0x" + "fe" * 20,
        "relayer_keystores": ["keys/one.json", "/etc/two.json"],
        "treasury_keystore": "keys/three.json",
    }
    lines = [f"{name} = {json.dumps(value)}" for name, value in chain.items()]
    text = "\n".join(['keystore_password_file = "password"', "[[chains]]", *lines])
    write(here, text)
    settings = Settings(home=home)
    assert settings.keystore_password_file == Path("password")
    assert settings.chains[0].treasury_keystore == Path("keys/three.json")
    write(home, text)
    settings = Settings(home=home)
    (known_chain,) = settings.chains
    assert settings.keystore_password_file == home / "password"
    assert known_chain.relayer_keystores == (home / "keys/one.json", Path("/etc/two.json"))
    assert known_chain.treasury_keystore == home / "keys/three.json"


@pytest.mark.parametrize(
    "text", ["chains = 5", "chains = [5]", "[[chains]]\nrelayer_keystores = [5]"]
)
def test_invalid_chains_setting_is_refused(here, home, text):
    write(home, text)
    with pytest.raises(ValidationError):
        Settings(home=home)


def test_home_as_current_folder_has_a_single_settings_file(here):
    write(here, "quote_s = 11")
    settings = Settings(home=here)
    assert (settings.quote_s, len(settings.list_files())) == (11, 1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"quote_s = ", "line 1: this is not valid TOML: Invalid value"),
        (b"quote_s = 1\n\nquote_s = 2\n", "line 3: quote_s is written twice"),
        (b"[webhooks]\nx = 1\n[webhooks]\n", "line 3: the table webhooks is written twice"),
        (b"quote_s = 1\n\xff", "line 2: this is not UTF-8 text"),
        (b"home = 5", "home is not the path of a folder"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(here, home, text, words):
    for folder in (here, home):
        path = folder / "florin.toml"
        path.write_bytes(text)
        with pytest.raises(SettingsError, match=words) as caught:
            Settings(**({} if folder is here else {"home": home}))
        assert str(caught.value).startswith("florin.toml: " if folder is here else f"{path}: ")


def test_folder_in_place_of_the_settings_file_is_reported(here):
    (here / "florin.toml").mkdir()
    with pytest.raises(SettingsError, match="florin.toml cannot be read: Is a directory"):
        Settings()
