"""Test what several processes share, at the start and after each reload."""

from __future__ import annotations

import pytest
from florin_server.app.home import SetupError
from florin_server.app.processes.child_config import ChildConfig
from florin_server.app.processes.sharing import get_shared_store, require_same_shared
from florin_server.settings import Settings

HERE = "postgresql://florin:first@db.example/florin"


def chosen(home, **changes) -> Settings:
    return Settings(**{"home": home, "store": HERE, "demo": False, **changes})


def test_a_reload_takes_another_password_and_no_other_database(tmp_path):
    store = get_shared_store(chosen(tmp_path))
    assert "first" not in store
    require_same_shared(chosen(tmp_path, store=HERE.replace("first", "second")), store)
    for other in (HERE.replace("/florin", "/other"), HERE.replace("db.", "db2.")):
        with pytest.raises(SetupError, match="cannot change the database"):
            require_same_shared(chosen(tmp_path, store=other), store)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"store": ""}, "PostgreSQL"),
        ({"demo": True}, "embedded chains"),
        ({"host": "0.0.0.0"}, "plain text"),
    ],
)
def test_a_reload_takes_nothing_that_a_start_refuses(tmp_path, changes, message):
    store = get_shared_store(chosen(tmp_path))
    with pytest.raises(SetupError, match=message):
        require_same_shared(chosen(tmp_path, **changes), store)


def test_an_order_arrives_as_it_was_sent():
    order = ChildConfig(
        overrides={"http_port": 1, "metrics_port": None},
        settles=False,
        store="here",
        http=3,
        metrics=None,
        owner="me",
        dead=["them"],
    )
    assert ChildConfig.from_line(order.to_line()) == order
    assert order.role.serves_callers
    assert not order.role.runs_workers
    assert order.list_socket_numbers() == [3]
