"""Chains that were written down are read as they were meant, or not at all."""

from __future__ import annotations

import pytest
from florin_server.config import Settings
from florin_server.rails.evm.settings import EvmChain
from florin_server.rails.networks import chain_files
from florin_server.rails.solana.settings import SolanaChain
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
    chain_files.folder(tmp_path).mkdir()
    return tmp_path


def put(home, name, text):
    path = chain_files.folder(home) / name
    path.write_text(text)
    return path


def test_what_was_written_is_what_is_read(home):
    path = put(home, "base.toml", chain_files.text("evm", EVM))
    assert chain_files.read(path, home) == EvmChain(
        **{
            **EVM,
            "relayer_keystores": (home / "keys/base-relayer.json",),
            "treasury_keystore": "/vault/treasury.json",
        }
    )


def test_settings_have_all_of_them(home):
    put(home, "base.toml", chain_files.text("evm", EVM))
    put(home, "devnet.toml", chain_files.text("solana", SOLANA))
    (home / "chains" / "notes.txt").write_text("nothing of ours")
    named = EvmChain(chain_id=10, settler="0x" + "ab" * 20, treasury="0x" + "fe" * 20)
    settings = Settings(home=home, chains=(named,))
    assert [chain.chain_id for chain in settings.chains] == [10, 8453]
    assert [chain.name for chain in settings.solana_chains] == ["Solana Devnet"]
    assert isinstance(settings.solana_chains[0], SolanaChain)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not one chain"),
        ("[evm", "not one chain"),
        ("[bitcoin]\nname = 'x'", "not one chain"),
        ("[evm]\nchain_id = 1\n[solana]\nname = 'x'", "not one chain"),
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


@pytest.mark.parametrize("head", ["[evm]", " [ evm ]  # Base"])
def test_settings_are_changed_and_the_rest_is_left(head):
    content = f"""# mine
{head}
chain_id = 1 # one
opener = "0x1"   # old

[[evm.assets]]
opener = "of the asset"
"""
    changed = chain_files.changed(content, {"opener": "0x2", "factories": ["0x3"]})
    assert (
        changed
        == f"""# mine
{head}
opener = "0x2"
factories = ["0x3"]
chain_id = 1 # one

[[evm.assets]]
opener = "of the asset"
"""
    )
    assert chain_files.changed(changed, {"opener": "0x2", "factories": ["0x3"]}) == changed


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("evm = { chain_id = 1 }\n", "no line"),
        ('[evm]\nfactories = [\n "0x1",\n]\n', "not for commands"),
        ('[evm]\n"opener" = "0x1"\n', "not for commands"),
        ('[evm]\nname = """\nopener = no\n"""\n', "not for commands"),
    ],
)
def test_what_cannot_be_changed_line_by_line_is_left(content, words):
    with pytest.raises(ValueError, match=words):
        chain_files.changed(content, {"opener": "0x2", "factories": ["0x3"]})


def test_a_kind_that_nobody_reads_is_not_written():
    with pytest.raises(ValueError, match="no kind of chain"):
        chain_files.text("bitcoin", {})
