"""Test which store the settings select, and how invalid settings are refused."""

from __future__ import annotations

import pytest
from florin_sandbox.simulation.folder import get_usable_home
from florin_server.app.home import SetupError
from florin_server.app.stores import get_location
from florin_server.db.engine.where import DatabaseConfig
from florin_server.settings import Settings

pytest.importorskip("asyncpg")
DSN = "postgresql://florin:s3cret@db.example:5433/florin"


def test_without_a_word_it_is_the_file_in_the_state_folder(tmp_path):
    assert get_location(Settings(home=tmp_path)) == tmp_path / "florin.db"


def test_store_address_is_read_from_the_setting_or_from_a_file(tmp_path):
    result = {"readers": 7, "writers": 2, "isolation": "serializable"}
    database = DatabaseConfig(DSN, readers=7, writers=2, serializable=True)
    assert get_location(Settings(home=tmp_path, store=DSN, database=result)) == database
    file = tmp_path / "address"
    file.write_text(DSN + "\n")
    assert get_location(Settings(home=tmp_path, store_file=file, database=result)) == database


def test_invalid_store_address_is_refused_without_showing_the_password(tmp_path):
    for wrong, why in (
        ("mysql://florin:s3cret@db/florin", "postgresql://"),
        ("postgresql://florin:s3cret@db:no-port/florin", "not a valid URL"),
    ):
        with pytest.raises(SetupError, match=why) as caught:
            get_location(Settings(home=tmp_path, store=wrong))
        assert "s3cret" not in str(caught.value)
    with pytest.raises(SetupError, match="cannot be read"):
        get_location(Settings(home=tmp_path, store_file=tmp_path / "nothing"))
    assert "s3cret" not in repr(Settings(home=tmp_path, store=DSN))


def test_standby_is_read_from_the_settings_and_refused_without_its_store(tmp_path):
    standby = DSN.replace("db.example", "standby.example")
    file = tmp_path / "standby"
    file.write_text(standby + "\n")
    for named in ({"store_standby": standby}, {"store_standby_file": file}):
        place = get_location(Settings(home=tmp_path, store=DSN, **named))
        assert place == DatabaseConfig(DSN, standby_dsn=standby)
        assert "s3cret" not in f"{place!r} {Settings(home=tmp_path, store=DSN, **named)!r}"
        with pytest.raises(SetupError, match="SQLite has no standby"):
            get_location(Settings(home=tmp_path, **named))
    with pytest.raises(SetupError, match="FLORIN_STORE_STANDBY must begin with") as caught:
        get_location(Settings(home=tmp_path, store=DSN, store_standby="mysql://s3cret@db/florin"))
    assert "s3cret" not in str(caught.value)


def test_address_with_several_hosts_is_accepted_and_shown_without_password(tmp_path):
    several = "postgresql://florin:s3cret@one:5433,two/florin?target_session_attrs=read-write"
    database = get_location(Settings(home=tmp_path, store=several))
    assert str(database) == "PostgreSQL at one:5433, two, database florin"


def test_days_are_not_simulated_in_a_database(tmp_path):
    with pytest.raises(SetupError, match="SQLite"):
        get_usable_home(Settings(home=tmp_path, store=DSN))
