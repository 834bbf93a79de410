"""Test that other users cannot read the state folder."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from florin_server.app.home import SetupError, StateFolder


@pytest.fixture(params=[0o000, 0o022, 0o077])
def umask(request):
    before = os.umask(request.param)
    yield
    os.umask(before)


def mode(path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_folder_is_its_owners(tmp_path, umask):
    home = StateFolder(tmp_path / "state").open()
    assert mode(home.path) == 0o700


def test_every_file_is_its_owners(tmp_path, umask):
    home = StateFolder(tmp_path / "state").open()
    home.get_or_create_secrets()
    home.write_demo_env({"A": "1"})
    with home.announce({"grpc": "127.0.0.1:1"}):
        files = list(home.path.iterdir())
        assert {file.name for file in files} == {"secrets.json", "demo.env", "running.json"}
        assert {mode(file) for file in files} == {0o600}


def test_file_readable_by_other_users_is_replaced(tmp_path):
    home = StateFolder(tmp_path)
    home.demo_env_path.write_text("OLD=1")
    home.demo_env_path.chmod(0o644)
    home.write_demo_env({"NEW": "2"})
    assert home.read_demo_env() == {"NEW": "2"}
    assert mode(home.demo_env_path) == 0o600
    assert [item.name for item in tmp_path.iterdir()] == ["demo.env"]


FILES = (
    *("secrets.json", "secrets.json.1a2b3c4d", "florin.toml", "demo.env", "running.json"),
    *("florin.db", "florin.db-wal", "florin.db-shm", "evm.db", "evm.db-wal", "solana.db"),
    *("chains/base.toml", "keys/base-relayer.json"),
)


@pytest.fixture
def restored(tmp_path):
    """Create a copy as a tool that ignores file modes does, next to foreign files."""
    home = tmp_path / "home"
    for name in (*FILES, "notes.txt", "own/notes.txt"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("{}")
    for item in (home, *home.rglob("*")):
        item.chmod(0o755 if item.is_dir() else 0o664)
    return home


def test_a_restored_home_is_private_again_once_it_is_opened(restored, caplog):
    StateFolder(restored).open()
    assert {mode(restored / name) for name in FILES} == {0o600}
    assert {mode(restored / name) for name in (".", "chains", "keys")} == {0o700}
    # foreign files in the folder keep their modes
    assert mode(restored / "notes.txt") == mode(restored / "own" / "notes.txt") == 0o664
    (result,) = caplog.messages
    assert all(name in result for name in FILES)
    StateFolder(restored).open()
    assert len(caplog.messages) == 1


def test_a_home_that_is_only_looked_at_stays_as_it_is(restored):
    home = StateFolder(restored).require_existing()
    exposed = [restored, restored / "chains", restored / "keys"]
    assert set(home.list_exposed()) == {*exposed, *(restored / name for name in FILES)}
    assert home.find_addresses() is None
    assert mode(restored / "secrets.json") == 0o664


def test_dangling_link_does_not_prevent_opening(tmp_path):
    (tmp_path / "secrets.json").symlink_to(tmp_path / "gone")
    assert StateFolder(tmp_path).open().list_exposed() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="takes another user")
def test_a_home_whose_modes_cannot_be_mended_is_refused():
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        home.chmod(0o755)
        (home / "demo.env").write_text("KEY=1")
        child = os.fork()
        if not child:
            os.setuid(65534)
            output = ""
            try:
                StateFolder(home).open()
            except SetupError as error:
                output = str(error)
            expected = (
                f"other users can read {home} {home}/demo.env: as their owner, chmod go= {home}"
            )
            os._exit(0 if output.startswith(expected) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("has_folder", [False, True])
def test_missing_home_is_not_created_by_reading(tmp_path, has_folder):
    path = tmp_path / "state"
    if has_folder:
        path.mkdir(0o700)
    home = StateFolder(path)
    assert home.find_addresses() is None
    assert home.read_demo_env() == {}
    assert home.list_exposed() == []
    with pytest.raises(SetupError, match="run `florin up`"):
        home.require_existing()
    assert path.exists() is has_folder
    assert not has_folder or list(path.iterdir()) == []


def test_listener_addresses_are_published_while_running(tmp_path):
    home = StateFolder(tmp_path)
    assert home.find_addresses() is None
    with home.announce({"grpc": "127.0.0.1:1"}):
        assert home.find_addresses() == {"pid": os.getpid(), "grpc": "127.0.0.1:1"}
    assert home.find_addresses() is None
    assert list(tmp_path.iterdir()) == []


def test_running_file_of_a_dead_process_is_ignored(tmp_path):
    home = StateFolder(tmp_path)
    home.running_path.write_text(json.dumps({"pid": os.getpid(), "grpc": "127.0.0.1:1"}))
    assert home.find_addresses() is None


@pytest.mark.parametrize("text", ["", "{", "{}", '{"pepper": "x"}', "[]", "null"])
def test_damaged_secrets_stop_the_start_and_are_not_replaced(tmp_path, text):
    home = StateFolder(tmp_path)
    (tmp_path / "secrets.json").write_text(text)
    with pytest.raises(SetupError, match="damaged"):
        home.get_or_create_secrets()
    assert (tmp_path / "secrets.json").read_text() == text


def test_secrets_are_created_once(tmp_path):
    first = StateFolder(tmp_path / "state").open().get_or_create_secrets()
    assert StateFolder(tmp_path / "state").get_or_create_secrets() == first
    assert StateFolder(tmp_path / "other").open().get_or_create_secrets() != first
    assert len(first.pepper) == 32
    assert len(first.relayer_key) == len(first.demo_destination_key) == 32
    assert first.relayer_key != first.demo_destination_key
    assert len(first.operator_token) >= 32


def test_secrets_do_not_show_in_messages(tmp_path):
    home = StateFolder(tmp_path / "state").open()
    installation_secrets = home.get_or_create_secrets()
    stored = json.loads((home.path / "secrets.json").read_text())
    shown = repr(installation_secrets)
    for secret in (*stored.values(), *stored.pop("capture_keys")):
        assert str(secret) not in shown
    assert repr(installation_secrets.pepper) not in shown
    assert repr(installation_secrets.capture_keys[0]) not in shown


def test_old_home_without_capture_keys_gets_a_key_and_keeps_the_rest(tmp_path):
    home = StateFolder(tmp_path)
    before = home.get_or_create_secrets()
    path = tmp_path / "secrets.json"
    stored = json.loads(path.read_text())
    del stored["capture_keys"]
    path.write_text(json.dumps(stored))
    after = home.get_or_create_secrets()
    assert replace(after, capture_keys=()) == replace(before, capture_keys=())
    assert after.capture_keys != before.capture_keys
    assert [len(key) for key in after.capture_keys] == [32]
    assert home.get_or_create_secrets() == after
    assert mode(path) == 0o600


def test_added_capture_key_is_read_beside_the_first(tmp_path):
    home = StateFolder(tmp_path)
    (first,) = home.get_or_create_secrets().capture_keys
    path = tmp_path / "secrets.json"
    stored = json.loads(path.read_text())
    stored["capture_keys"].append("ab" * 32)
    path.write_text(json.dumps(stored))
    assert home.get_or_create_secrets().capture_keys == (first, b"\xab" * 32)


@pytest.mark.parametrize("keys", [["zz"], ["ab"], "ab", [1], 1, [None]])
def test_damaged_capture_keys_stop_the_start(tmp_path, keys):
    home = StateFolder(tmp_path)
    home.get_or_create_secrets()
    path = tmp_path / "secrets.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "capture_keys": keys}))
    with pytest.raises(SetupError, match="damaged"):
        home.get_or_create_secrets()


def test_demo_credentials_come_back_as_written(tmp_path):
    home = StateFolder(tmp_path / "state").open()
    assert home.read_demo_env() == {}
    values = {"KEY": "fl_test_pk_x", "URL": "http://127.0.0.1:1/?a=b=c"}
    home.write_demo_env(values)
    assert home.read_demo_env() == values
