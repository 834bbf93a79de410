"""The state folder: nobody else reads what is in it."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from florin_server.boot.home import Home, Refused


@pytest.fixture(params=[0o000, 0o022, 0o077])
def umask(request):
    before = os.umask(request.param)
    yield
    os.umask(before)


def mode(path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_folder_is_its_owners(tmp_path, umask):
    home = Home(tmp_path / "state").open()
    assert mode(home.path) == 0o700


def test_every_file_is_its_owners(tmp_path, umask):
    home = Home(tmp_path / "state").open()
    home.secrets()
    home.write_demo_env({"A": "1"})
    with home.announced({"grpc": "127.0.0.1:1"}):
        files = list(home.path.iterdir())
        assert {file.name for file in files} == {"secrets.json", "demo.env", "running.json"}
        assert {mode(file) for file in files} == {0o600}


def test_a_file_that_others_could_read_is_replaced(tmp_path):
    home = Home(tmp_path)
    home.demo_env.write_text("OLD=1")
    home.demo_env.chmod(0o644)
    home.write_demo_env({"NEW": "2"})
    assert home.read_demo_env() == {"NEW": "2"}
    assert mode(home.demo_env) == 0o600
    assert [one.name for one in tmp_path.iterdir()] == ["demo.env"]


FILES = (
    *("secrets.json", "secrets.json.1a2b3c4d", "florin.toml", "demo.env", "running.json"),
    *("florin.db", "florin.db-wal", "florin.db-shm", "evm.db", "evm.db-wal", "solana.db"),
    *("chains/base.toml", "keys/base-relayer.json"),
)


@pytest.fixture
def restored(tmp_path):
    """A copy as a tool without an eye for modes makes it, beside what is not ours."""
    home = tmp_path / "home"
    for name in (*FILES, "notes.txt", "own/notes.txt"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("{}")
    for one in (home, *home.rglob("*")):
        one.chmod(0o755 if one.is_dir() else 0o664)
    return home


def test_a_restored_home_is_private_again_once_it_is_opened(restored, caplog):
    Home(restored).open()
    assert {mode(restored / name) for name in FILES} == {0o600}
    assert {mode(restored / name) for name in (".", "chains", "keys")} == {0o700}
    # what else is in the folder is nobody's business here
    assert mode(restored / "notes.txt") == mode(restored / "own" / "notes.txt") == 0o664
    (told,) = caplog.messages
    assert all(name in told for name in FILES)
    Home(restored).open()
    assert len(caplog.messages) == 1


def test_a_home_that_is_only_looked_at_stays_as_it_is(restored):
    home = Home(restored).require()
    exposed = [restored, restored / "chains", restored / "keys"]
    assert set(home.exposed()) == {*exposed, *(restored / name for name in FILES)}
    assert home.addresses() is None
    assert mode(restored / "secrets.json") == 0o664


def test_a_link_that_leads_nowhere_keeps_nobody_from_opening(tmp_path):
    (tmp_path / "secrets.json").symlink_to(tmp_path / "gone")
    assert Home(tmp_path).open().exposed() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="takes another user")
def test_a_home_whose_modes_cannot_be_mended_is_refused():
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        home.chmod(0o755)
        (home / "demo.env").write_text("KEY=1")
        child = os.fork()
        if not child:
            os.setuid(65534)
            told = ""
            try:
                Home(home).open()
            except Refused as error:
                told = str(error)
            expected = f"others can read {home} {home}/demo.env: as their owner, chmod go= {home}"
            os._exit(0 if told.startswith(expected) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("made", [False, True])
def test_a_home_that_is_not_there_is_not_made_by_looking(tmp_path, made):
    path = tmp_path / "state"
    if made:
        path.mkdir(0o700)
    home = Home(path)
    assert home.addresses() is None
    assert home.read_demo_env() == {}
    assert home.exposed() == []
    with pytest.raises(Refused, match="`florin up` makes one"):
        home.require()
    assert path.exists() is made
    assert not made or list(path.iterdir()) == []


def test_where_it_listens_is_told_while_it_runs(tmp_path):
    home = Home(tmp_path)
    assert home.addresses() is None
    with home.announced({"grpc": "127.0.0.1:1"}):
        assert home.addresses() == {"pid": os.getpid(), "grpc": "127.0.0.1:1"}
    assert home.addresses() is None
    assert list(tmp_path.iterdir()) == []


def test_what_a_dead_process_left_tells_nothing(tmp_path):
    home = Home(tmp_path)
    home.running.write_text(json.dumps({"pid": os.getpid(), "grpc": "127.0.0.1:1"}))
    assert home.addresses() is None


@pytest.mark.parametrize("text", ["", "{", "{}", '{"pepper": "x"}', "[]", "null"])
def test_damaged_secrets_stop_the_start_and_are_not_replaced(tmp_path, text):
    home = Home(tmp_path)
    (tmp_path / "secrets.json").write_text(text)
    with pytest.raises(Refused, match="damaged"):
        home.secrets()
    assert (tmp_path / "secrets.json").read_text() == text


def test_secrets_are_made_once(tmp_path):
    first = Home(tmp_path / "state").open().secrets()
    assert Home(tmp_path / "state").secrets() == first
    assert Home(tmp_path / "other").open().secrets() != first
    assert len(first.pepper) == 32
    assert len(first.relayer_key) == len(first.demo_destination_key) == 32
    assert first.relayer_key != first.demo_destination_key
    assert len(first.operator_token) >= 32


def test_secrets_do_not_show_in_messages(tmp_path):
    home = Home(tmp_path / "state").open()
    kept = home.secrets()
    stored = json.loads((home.path / "secrets.json").read_text())
    shown = repr(kept)
    for secret in (*stored.values(), *stored.pop("capture_keys")):
        assert str(secret) not in shown
    assert repr(kept.pepper) not in shown
    assert repr(kept.capture_keys[0]) not in shown


def test_a_home_from_before_there_were_capture_keys_gets_one_and_keeps_the_rest(tmp_path):
    home = Home(tmp_path)
    before = home.secrets()
    path = tmp_path / "secrets.json"
    stored = json.loads(path.read_text())
    del stored["capture_keys"]
    path.write_text(json.dumps(stored))
    after = home.secrets()
    assert replace(after, capture_keys=()) == replace(before, capture_keys=())
    assert after.capture_keys != before.capture_keys
    assert [len(key) for key in after.capture_keys] == [32]
    assert home.secrets() == after
    assert mode(path) == 0o600


def test_capture_keys_are_rotated_by_adding_one(tmp_path):
    home = Home(tmp_path)
    (first,) = home.secrets().capture_keys
    path = tmp_path / "secrets.json"
    stored = json.loads(path.read_text())
    stored["capture_keys"].append("ab" * 32)
    path.write_text(json.dumps(stored))
    assert home.secrets().capture_keys == (first, b"\xab" * 32)


@pytest.mark.parametrize("keys", [["zz"], ["ab"], "ab", [1], 1, [None]])
def test_damaged_capture_keys_stop_the_start(tmp_path, keys):
    home = Home(tmp_path)
    home.secrets()
    path = tmp_path / "secrets.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "capture_keys": keys}))
    with pytest.raises(Refused, match="damaged"):
        home.secrets()


def test_demo_credentials_come_back_as_written(tmp_path):
    home = Home(tmp_path / "state").open()
    assert home.read_demo_env() == {}
    values = {"KEY": "fl_test_pk_x", "URL": "http://127.0.0.1:1/?a=b=c"}
    home.write_demo_env(values)
    assert home.read_demo_env() == values
