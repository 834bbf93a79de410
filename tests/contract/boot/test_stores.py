"""Which store the settings name, and what is told of one that cannot be meant."""

from __future__ import annotations

import pytest
from florin_server.boot.home import Refused
from florin_server.boot.stores import where
from florin_server.config import Settings
from florin_server.simulation.folder import usable
from florin_server.store.engine.where import Database

pytest.importorskip("asyncpg")
DSN = "postgresql://florin:s3cret@db.example:5433/florin"


def test_without_a_word_it_is_the_file_in_the_state_folder(tmp_path):
    assert where(Settings(home=tmp_path)) == tmp_path / "florin.db"


def test_an_address_is_given_itself_or_by_a_file(tmp_path):
    told = {"readers": 7, "writers": 2, "isolation": "serializable"}
    wanted = Database(DSN, readers=7, writers=2, serializable=True)
    assert where(Settings(home=tmp_path, store=DSN, database=told)) == wanted
    file = tmp_path / "address"
    file.write_text(DSN + "\n")
    assert where(Settings(home=tmp_path, store_file=file, database=told)) == wanted


def test_what_cannot_be_meant_is_refused_without_the_password(tmp_path):
    for wrong, why in (
        ("mysql://florin:s3cret@db/florin", "postgresql://"),
        ("postgresql://florin:s3cret@db:no-port/florin", "no address"),
    ):
        with pytest.raises(Refused, match=why) as caught:
            where(Settings(home=tmp_path, store=wrong))
        assert "s3cret" not in str(caught.value)
    with pytest.raises(Refused, match="cannot be read"):
        where(Settings(home=tmp_path, store_file=tmp_path / "nothing"))
    assert "s3cret" not in repr(Settings(home=tmp_path, store=DSN))


def test_address_with_several_hosts_is_accepted_and_shown_without_password(tmp_path):
    several = "postgresql://florin:s3cret@one:5433,two/florin?target_session_attrs=read-write"
    database = where(Settings(home=tmp_path, store=several))
    assert str(database) == "PostgreSQL at one:5433, two, database florin"


def test_days_are_not_simulated_in_a_database(tmp_path):
    with pytest.raises(Refused, match="SQLite"):
        usable(Settings(home=tmp_path, store=DSN))
