"""Test keystores: the signer matches the settings, and other users cannot read the key."""

from __future__ import annotations

import json
import stat

import pytest
from eth_account import Account
from florin_server.app.chains import connected
from florin_server.app.chains.keys import (
    ChainKeyring,
    find_keystore_address,
    open_keystore,
    write_evm_keystore,
    write_solana_keystore,
)
from florin_server.app.home import SetupError, StateFolder
from florin_server.rails.evm.settings import EvmChainSettings
from florin_server.rails.solana.sending.signer import SolanaSigner
from florin_server.rails.solana.settings import SolanaChainSettings
from florin_server.settings import Settings

PASSWORD = "correct horse battery staple"
KEY, OTHER = b"\x11" * 32, b"\x22" * 32
ADDRESS = Account.from_key(KEY).address.lower()
TREASURY = Account.from_key(OTHER).address.lower()
SETTLER = "0x" + "ab" * 20


def quick(path, secret=KEY):
    """Write a keystore as other programs do, with a cheaper key derivation."""
    path.write_text(json.dumps(Account.encrypt(secret, PASSWORD, kdf="scrypt", iterations=2)))
    return path


def quick_solana(path, secret=KEY):
    stored = Account.encrypt(secret, PASSWORD, kdf="scrypt", iterations=2)
    path.write_text(json.dumps({**stored, "address": SolanaSigner(secret).address}))
    return path


def evm(**changes):
    values = {
        "chain_id": 8453,
        "name": "Base",
        "settler": SETTLER,
        "treasury": TREASURY,
        "rpc_url": "http://127.0.0.1:1",
    }
    return EvmChainSettings(**{**values, **changes})


def solana(**changes):
    values = {
        "reference": "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp",
        "name": "Solana",
        "treasury": SolanaSigner(OTHER).address,
        "rpc_url": "http://127.0.0.1:1",
    }
    return SolanaChainSettings(**{**values, **changes})


@pytest.fixture
def secrets(tmp_path):
    return StateFolder(tmp_path / "home").open().get_or_create_secrets()


@pytest.fixture
def keys(tmp_path, secrets):
    return ChainKeyring(Settings(home=tmp_path / "home", keystore_password=PASSWORD), secrets)


def refusal(call, *arguments) -> str:
    with pytest.raises(SetupError) as caught:
        call(*arguments)
    return str(caught.value)


def test_a_new_keystore_is_its_owners_and_any_wallet_opens_it(tmp_path):
    path = tmp_path / "keys" / "relayer.json"
    address = write_evm_keystore(path, KEY, PASSWORD)
    assert address == Account.from_key(KEY).address
    assert find_keystore_address(path) == address.lower()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    stored = json.loads(path.read_text())
    assert (stored["version"], stored["crypto"]["kdfparams"]["n"]) == (3, 2**18)
    assert bytes(Account.decrypt(stored, PASSWORD)) == KEY
    assert KEY.hex() not in path.read_text()
    assert "never overwritten" in refusal(write_evm_keystore, path, OTHER, PASSWORD)
    assert open_keystore(path, PASSWORD) == KEY


def test_solana_seed_is_stored_in_the_same_keystore_format(tmp_path, keys):
    path = tmp_path / "solana.json"
    address = write_solana_keystore(path, KEY, PASSWORD)
    assert address == find_keystore_address(path) == SolanaSigner(KEY).address
    (signer,) = keys.get_solana_relayers(solana(relayer_keystores=(path,)))
    assert signer.address == address


def test_the_installations_own_key_signs_without_a_keystore(tmp_path, secrets):
    keys = ChainKeyring(Settings(home=tmp_path / "home"), secrets)
    own = Account.from_key(secrets.relayer_key).address.lower()
    assert [each_signer.address for each_signer in keys.get_relayers(evm())] == [own]
    (signer,) = keys.get_solana_relayers(solana())
    assert signer.address == SolanaSigner(secrets.solana_relayer_seed).address
    assert keys.find_treasury(evm()) is None
    assert keys.find_solana_treasury(solana()) is None


def test_several_relayers_and_the_treasury_are_read_in_order(tmp_path, keys):
    third = b"\x33" * 32
    paths = (quick(tmp_path / "a.json"), quick(tmp_path / "b.json", third))
    chain = evm(relayer_keystores=paths, treasury_keystore=quick(tmp_path / "c.json", OTHER))
    own = [item.address for item in keys.get_relayers(chain)]
    assert own == [ADDRESS, Account.from_key(third).address.lower()]
    assert keys.find_treasury(chain).address == TREASURY


def test_the_password_may_be_in_a_file(tmp_path, secrets):
    path = quick(tmp_path / "a.json")
    file = tmp_path / "password"
    file.write_text(PASSWORD + "\n")
    keys = ChainKeyring(Settings(home=tmp_path / "home", keystore_password_file=file), secrets)
    assert keys.get_relayers(evm(relayer_keystores=(path,)))[0].address == ADDRESS
    file.write_text("")
    keys = ChainKeyring(Settings(home=tmp_path / "home", keystore_password_file=file), secrets)
    assert "need a password" in refusal(keys.get_relayers, evm(relayer_keystores=(path,)))


def test_the_password_is_never_shown(tmp_path):
    settings = Settings(home=tmp_path, keystore_password=PASSWORD)
    assert PASSWORD not in repr(settings) + str(settings) + settings.model_dump_json()


def test_a_keystore_that_cannot_be_used_is_named(tmp_path, secrets, keys):
    path = quick(tmp_path / "a.json")
    chain = evm(relayer_keystores=(path,))
    without = ChainKeyring(Settings(home=tmp_path / "home"), secrets)
    assert "FLORIN_KEYSTORE_PASSWORD" in refusal(without.get_relayers, chain)
    wrong = ChainKeyring(Settings(home=tmp_path / "home", keystore_password="no"), secrets)
    assert refusal(wrong.get_relayers, chain).endswith("the password is wrong")
    stored = json.loads(path.read_text())
    del stored["crypto"]["cipherparams"]
    for content, why in (
        (json.dumps(stored), "it is damaged"),
        ("{}", "not a keystore of version 3"),
        ("nonsense", "not a keystore of version 3"),
        (" " * 20_000, "is not a keystore"),
    ):
        path.write_text(content)
        output = refusal(keys.get_relayers, chain)
        assert why in output
        assert str(path) in output
    path.unlink()
    assert "No such file" in refusal(keys.get_relayers, chain)


def test_no_key_serves_two_kinds_of_signature(tmp_path, keys):
    path = quick(tmp_path / "a.json")
    assert "no key of a Solana account" in refusal(
        keys.get_solana_relayers, solana(relayer_keystores=(path,))
    )


def test_a_treasury_keystore_of_another_account_is_refused(tmp_path, keys):
    path = quick(tmp_path / "a.json")
    output = refusal(connected.build_rail, evm(treasury_keystore=path), keys)
    assert output == f"Base: the treasury is {TREASURY}, but the keystore {path} is of {ADDRESS}"
    path = quick_solana(tmp_path / "b.json")
    output = refusal(connected.build_rail, solana(treasury_keystore=path), keys)
    assert f"the keystore {path} is of {SolanaSigner(KEY).address}" in output


def test_a_relayer_is_never_the_treasury(tmp_path, keys):
    path = quick(tmp_path / "a.json", OTHER)
    output = refusal(connected.build_rail, evm(relayer_keystores=(path,)), keys)
    assert "must not be the relayer's account" in output
    own = keys.get_relayers(evm())[0].address
    assert "must not be" in refusal(connected.build_rail, evm(treasury=own), keys)


def test_the_same_key_twice_is_refused(tmp_path, keys):
    paths = (quick(tmp_path / "a.json"), quick(tmp_path / "b.json"))
    assert "the same relayer key" in refusal(keys.get_relayers, evm(relayer_keystores=paths))


async def test_the_rail_signs_with_the_keystores_keys(tmp_path, keys):
    third = b"\x33" * 32
    paths = (quick(tmp_path / "a.json"), quick(tmp_path / "b.json", third))
    rail = connected.build_rail(evm(relayer_keystores=paths), keys)
    assert list(rail.senders) == [ADDRESS, Account.from_key(third).address.lower()]
    await rail.close()


def test_several_relayer_keys_on_solana_are_refused(tmp_path, keys):
    paths = (quick_solana(tmp_path / "a.json"), quick_solana(tmp_path / "b.json", b"\x33" * 32))
    output = refusal(connected.build_rail, solana(relayer_keystores=paths), keys)
    assert output.endswith("only one relayer key is supported")
