"""Test that written chain files are read as written, or refused."""

from __future__ import annotations

import tomllib

import pytest
from florin_server.rails.evm.settings import EvmChainSettings
from florin_server.rails.networks import chain_files, chain_writer
from florin_server.rails.solana.settings import SolanaChainSettings
from florin_server.settings import Settings
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

EVM = {
    "chain_id": 8453,
    "rpc_url": 'https://node.example/key?"\\=\x7fé',
    "settler": "0x" + "ab" * 20,
    "treasury": "0x" + "fe" * 20,
    "relayer_keystores": ["keys/base-relayer.json"],
    "treasury_keystore": "/vault/treasury.json",
    "live": False,
    "icon_url": None,
    "tokens": ["USDC"],
    "coin": {"name": "Ether", "symbol": "ETH"},
    "assets": [
        {"address": "0x" + "12" * 20, "name": "One", "symbol": "ONE", "decimals": 6, "peg": "EUR"},
        {"address": "0x" + "34" * 20, "name": "Two", "symbol": "TWO", "decimals": 8, "peg": None},
    ],
}
SOLANA = {
    "reference": "EtWTRABZaYq6iMfeYKouRu166VU2xqa1",
    "rpc_url": "http://127.0.0.1:8899",
    "treasury": "1" * 32,
    "tokens": ["USDC"],
}


@pytest.fixture
def home(tmp_path):
    chain_files.get_folder(tmp_path).mkdir()
    return tmp_path


def put(home, name, text):
    path = chain_files.get_folder(home) / name
    path.write_bytes(text.encode(errors="surrogateescape"))
    return path


def test_written_chain_file_is_read_unchanged(home):
    path = put(home, "base.toml", chain_writer.format_file("evm", EVM))
    assert chain_files.read_chain(path, home) == EvmChainSettings(
        **{
            **EVM,
            "relayer_keystores": (home / "keys/base-relayer.json",),
            "treasury_keystore": "/vault/treasury.json",
        }
    )


def test_settings_have_all_of_them(home):
    put(home, "base.toml", chain_writer.format_file("evm", EVM))
    put(home, "devnet.toml", chain_writer.format_file("solana", SOLANA))
    (home / "chains" / "notes.txt").write_text("nothing of ours")
    named = EvmChainSettings(chain_id=10, settler="0x" + "ab" * 20, treasury="0x" + "fe" * 20)
    settings = Settings(home=home, chains=(named,))
    assert [chain.chain_id for chain in settings.chains] == [10, 8453]
    assert [chain.name for chain in settings.solana_chains] == ["Solana Devnet"]
    assert isinstance(settings.solana_chains[0], SolanaChainSettings)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "must contain one chain"),
        ("[evm", "line 1: this is not valid TOML: Expected ']'"),
        ("[evm]\nchain_id = 1\n\nchain_id = 2\n", "line 4: chain_id is written twice"),
        ("[evm]\nchain_id = 1\nname = 'x'\nname = 'y'", "line 4: name is written twice"),
        ("[evm]\nfactories = []\nfactories = [\n'0x1',\n]\n", "line 5: factories is written twice"),
        ("[evm]\nchain_id = 1\n[evm]\n", "line 3: the table evm is written twice"),
        ("[evm.gas]\n[evm.gas]\n", "line 2: the table evm.gas is written twice"),
        ("[evm]\nname = 'x", "line 2: this is not valid TOML"),
        ("[evm]\nname = 'x'\r\rid = 1", "line 2: this is not valid TOML"),
        ("[evm]\nname = '\udcff'", "line 2: this is not UTF-8 text"),
        ("evm = 3", "valid dictionary"),
        ("[bitcoin]\nname = 'x'", "must contain one chain"),
        ("[evm]\nchain_id = 1\n[solana]\nname = 'x'", "must contain one chain"),
        ("[evm]\nchain_id = 1\nsettler = '0x12'\ntreasury = '0x'", "settler: Value error"),
    ],
)
def test_a_file_that_is_not_valid_is_named(home, text, words):
    path = put(home, "bad.toml", text)
    with pytest.raises(ValidationError) as caught:
        Settings(home=home)
    (fault,) = caught.value.errors()
    assert str(path) in fault["msg"]
    assert words in fault["msg"]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_settings_are_changed_and_the_rest_is_left(end):
    content = """# mine
[evm]  # Base
chain_id = 1 # one
opener = "0x1"   # old
# nodes
rpc_url = 'https://node.example'

[[evm.assets]]
opener = "of the asset"
"""
    written = """# mine
[evm]  # Base
chain_id = 1 # one
opener = "0x2"   # old
# nodes
rpc_url = 'https://node.example'
factories = ["0x3"]

[[evm.assets]]
opener = "of the asset"
"""
    content, written = content.replace("\n", end), written.replace("\n", end)
    changed = chain_writer.update_file(content, {"opener": "0x2", "factories": ["0x3"]})
    assert changed.splitlines() == written.splitlines()
    assert chain_writer.update_file(changed, {"opener": "0x2", "factories": ["0x3"]}) == changed


@pytest.mark.parametrize(
    "content",
    [
        "evm = { chain_id = 1 }\n",
        'evm.chain_id = 1\nevm.opener = "0x1"\n',
        '[evm]\nfactories = [\n "0x1", # first\n]\n',
        '[evm]\n"opener" = "0x1"\n',
        '[evm]\nname = """\nopener = no\n"""\n',
        '["evm"] # odd',
        ' [ evm ]\nchain_id = 1\n[[evm.assets]]\nopener = "of the asset"\n',
        '[evm.coin]\nname = "x"\n[evm]\nchain_id = 1\n',
        '[[evm.assets]]\nname = "x"\n[evm.coin]\nname = "y"\n[[evm.assets]]\nname = "z"\n',
    ],
)
def test_chain_file_update_changes_only_the_named_settings(content):
    text = {"opener": "0x2", "factories": ["0x3"]}
    changed = tomllib.loads(chain_writer.update_file(content, text))
    assert changed == {"evm": {**tomllib.loads(content)["evm"], **text}}


TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
SIMPLE = st.one_of(TEXTS, st.booleans(), st.integers(-(2**63), 2**63 - 1), st.lists(TEXTS))
TABLES = st.dictionaries(TEXTS, SIMPLE, max_size=4)


@settings(max_examples=200)
@given(table=st.dictionaries(TEXTS, SIMPLE | TABLES | st.lists(TABLES, min_size=1), max_size=6))
def test_anything_is_read_as_it_was_written(table):
    written = chain_writer.format_file("evm", table)
    assert tomllib.loads(written) == {"evm": table}
    result = {name: value for name, value in table.items() if not isinstance(value, dict)}
    assert tomllib.loads(chain_writer.update_file(written, result)) == {"evm": table}


def test_unknown_chain_kind_is_not_written():
    with pytest.raises(ValueError, match="unknown kind of chain"):
        chain_writer.format_file("bitcoin", {})
