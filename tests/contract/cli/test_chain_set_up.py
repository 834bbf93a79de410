"""`florin chain` sets up a whole chain: keys of both kinds, contracts, factories, and their ids."""

from __future__ import annotations

import asyncio
import json
import tomllib

import pytest
from eth_account import Account
from florin_sandbox.devnet.genesis import load_artifact
from florin_sandbox.devnet.solana import SOLANA_DEVNET, SolanaDevChain, SolanaDevSettings
from florin_server.app.chains.keys import open_keystore
from florin_server.app.chains.setup import load_forwarder_contract
from florin_server.app.home import StateFolder
from florin_server.domain.caip import format_checksum_address
from florin_server.domain.settlement.pace import ChainPace
from florin_server.domain.settlement.settle_times import SettleTimes
from florin_server.money.open_store import open_store
from florin_server.operations.store import observed
from florin_server.rails.networks import chain_files
from solders.keypair import Keypair

from tests.support import foreign_chains
from tests.support.chain_commands import (
    ENVIRONMENT,
    FORWARDER,
    OPENER,
    PASSWORD,
    SETTLER,
    TREASURY,
    TREASURY_KEY,
    ChainCommands,
    line_of,
    refused,
)

pytestmark = pytest.mark.slow

CHAIN = "eip155:424242"
FACTORY = format_checksum_address("0x" + "fa" * 20)
OTHER = format_checksum_address("0x" + "fb" * 20)
CODE = {text.lower(): load_artifact("DevWalletFactory").runtime for text in (FACTORY, OTHER)}


@pytest.fixture
def run(home, forks):
    return ChainCommands(forks, home).run


@pytest.fixture
async def chain():
    async with foreign_chains.open_embedded(424242, CODE) as opened:
        yield opened


def add(chain: foreign_chains.ForeignChain, *more: str) -> tuple[str, ...]:
    words = ("chain", "add", "--rpc-url", chain.url, "--chain", CHAIN, "--name", "Far Away")
    return (*words, "--token", f"{chain.token}:USD", "--yes", *more)


def written(home) -> dict:
    return tomllib.loads((home / "chains" / "far-away.toml").read_text())["evm"]


# treasuries


async def test_new_treasury_key_is_created_with_its_chain_and_pays_out(run, home, chain, forks):
    added = await run(*add(chain, "--new-relayer", "--new-treasury"))
    assert added.status == 0, added
    treasury, path = line_of(added, "Treasury: "), home / "keys" / "far-away-treasury.json"
    assert written(home)["treasury"] == treasury
    assert written(home)["treasury_keystore"] == "keys/far-away-treasury.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert Account.from_key(open_keystore(path, PASSWORD)).address == treasury
    assert f"The treasury's key is in {path}. Keep a copy of it." in added.err
    assert treasury != line_of(added, "Relayer: ")
    with await asyncio.to_thread(lambda: forks.start_lasting("up", home=home, **ENVIRONMENT)):
        listed = await run("executors", "list")
    # its purpose is to send
    assert treasury.lower() in listed.out.lower()


async def test_a_treasurys_key_comes_from_a_file_in_hex(run, home, chain, tmp_path):
    key = tmp_path / "key"
    key.write_text("0x" + "77" * 32 + "\n")
    words = add(chain, "--treasury-key-file", str(key))
    key.chmod(0o640)
    hint = f"run `chmod go= {key}` as its owner"
    assert f"other users can read {key}: {hint}" in refused(await run(*words))
    key.chmod(0o600)
    other = refused(await run(*words, "--treasury", OTHER))
    assert other.endswith(f"the treasury is {OTHER}, but the key belongs to {TREASURY}")
    assert not (home / "keys").exists()
    assert (await run(*words, "--treasury", TREASURY.lower())).status == 0
    assert open_keystore(home / "keys" / "far-away-treasury.json", PASSWORD) == TREASURY_KEY


async def test_a_treasury_on_solana_gets_its_key_too(run, home):
    cluster = await SolanaDevChain.open(None, SolanaDevSettings(finalized_slots=1))
    try:
        url = f"http://127.0.0.1:{await cluster.serve_http()}"
        words = (
            "chain",
            "add",
            "--rpc-url",
            url,
            "--chain",
            SOLANA_DEVNET.chain_id,
            "--name",
            "Own",
        )
        token = SOLANA_DEVNET.tokens[0]
        more = ("--token", f"{token.address}:USD:tUSD", "--coin", "--new-relayer", "--yes")
        assert "no opener" in refused(await run(*words, *more, "--treasury", "1" * 32, "--opener"))
        added = await run(*words, *more, "--new-treasury")
        assert added.status == 0, added
        treasury = line_of(added, "Treasury: ")
        seed = open_keystore(home / "keys" / "own-treasury.json", PASSWORD)
        assert str(Keypair.from_seed(seed).pubkey()) == treasury
        assert f"tUSD is {SOLANA_DEVNET.chain_id}/token:{token.address}" in added.err
        assert f"SOL is {SOLANA_DEVNET.chain_id}/slip44:501" in added.err
    finally:
        await cluster.close()


async def test_keys_are_neither_overwritten_nor_of_another_kind(run, home, chain, tmp_path):
    path = home / "keys" / "far-away-treasury.json"
    path.parent.mkdir(parents=True, mode=0o700)
    path.write_text("{}")
    assert "never overwritten" in refused(await run(*add(chain, "--new-treasury")))
    assert path.read_text() == "{}"
    assert not (home / "chains").exists()


@pytest.mark.parametrize("kind", ["--solana", ""])
async def test_keystore_command_creates_a_keystore(run, home, tmp_path, kind):
    path, key = tmp_path / "treasury.json", tmp_path / "key"
    key.write_text("77" * 32)
    key.chmod(0o600)
    options = [kind] if kind else []
    address = str(Keypair.from_seed(TREASURY_KEY).pubkey()) if kind else TREASURY
    words = ("chain", "keystore", str(path), *options)
    created = await run(*words, "--key-file", str(key))
    assert (created.status, created.out) == (0, f"{address}\n"), created
    assert open_keystore(path, PASSWORD) == TREASURY_KEY
    assert path.stat().st_mode & 0o777 == 0o600
    assert "never overwritten" in refused(await run(*words))
    path.unlink()
    assert (await run(*words)).out not in {"", created.out}
    # a lost password would lock the key up permanently
    path.unlink()
    assert "need a password" in refused(await run(*words, FLORIN_KEYSTORE_PASSWORD=""))
    assert not path.exists()
    assert not home.exists()


# files that others can read


@pytest.mark.parametrize("option", ["--relayer-keystore", "--treasury-keystore"])
async def test_keystore_readable_by_other_users_is_refused(run, home, chain, tmp_path, option):
    path = tmp_path / "key.json"
    address = (await run("chain", "keystore", str(path))).out.strip()
    treasury = TREASURY if option == "--relayer-keystore" else address
    words = add(chain, option, str(path), "--treasury", treasury)
    path.chmod(0o644)
    assert refused(await run(*words)).endswith(f"run `chmod go= {path}` as its owner")
    assert not (home / "chains").exists()
    path.chmod(0o600)
    assert (await run(*words)).status == 0
    # permissions that a secret store changes later cause a warning at each use, and no refusal
    path.chmod(0o440)
    assert f"other users can read the keystore {path}" in (await run("chain", "list")).err


async def test_home_readable_by_other_users_is_repaired_by_any_command(run, home, chain, forks):
    assert (await run(*add(chain, "--new-relayer", "--new-treasury"))).status == 0
    names = ("secrets.json", "chains/far-away.toml", "keys/far-away-treasury.json")

    async def repair_by_each_command() -> None:
        for command in ("keys list", "chain list", "payouts list", "doctor"):
            for name in names:
                (home / name).chmod(0o644)
            done = await run(*command.split())
            err = done.err if command != "doctor" else done.out
            reports = ("other users could read", "could be read by others, and cannot now")
            assert any(report in err for report in reports), command
            assert all(name.rpartition("/")[2] in err for name in names), done
            assert {(home / name).stat().st_mode & 0o777 for name in names} == {0o600}, command

    await repair_by_each_command()
    with await asyncio.to_thread(lambda: forks.start_lasting("up", home=home, **ENVIRONMENT)):
        await repair_by_each_command()


# accounts that do not exist yet


async def test_opener_and_factories_are_written_when_a_chain_is_added(run, home, chain):
    words = add(chain, "--new-relayer", "--treasury", TREASURY, "--factory", FACTORY.lower())
    added = await run(*words)
    assert added.status == 0, added
    assert (written(home)["opener"], written(home)["factories"]) == (OPENER, [FACTORY])
    assert "to deploy: settlement contract and opener." in added.err
    await chain.fund(line_of(added, "Relayer: "))
    # the file has it: no option is needed again
    done = await run("chain", "deploy", "far-away", "--yes")
    assert (done.status, done.out) == (0, f"{SETTLER}\n{OPENER}\n"), done
    assert "is not Florin's opener" not in (await run("chain", "list")).err


@pytest.mark.parametrize(
    ("factory", "words"),
    [
        ("0x" + "0a" * 20, "is not a contract"),
        ("0x12", "is not a valid address"),
        (FACTORY, "named twice"),
    ],
)
async def test_invalid_factory_is_refused(run, home, chain, factory, words):
    more = ("--factory", FACTORY, "--factory", factory)
    assert words in refused(await run(*add(chain, "--treasury", TREASURY, *more)))
    assert not (home / "chains").exists()
    assert (await run(*add(chain, "--treasury", TREASURY))).status == 0
    assert words in refused(await run("chain", "deploy", "far-away", "--yes", *more))
    assert "opener" not in written(home)


async def test_deploying_the_opener_writes_it_down(run, home, chain):
    added = await run(*add(chain, "--new-relayer", "--treasury", TREASURY))
    await chain.fund(line_of(added, "Relayer: "))
    path = home / "chains" / "far-away.toml"
    mine = path.read_text().replace("[evm]", "[evm]  # mine\ngas_reserve = 7 # 7, not 50")
    path.write_text(mine)
    done = await run("chain", "deploy", "far-away", "--factory", FACTORY, "--yes")
    assert (done.status, done.out) == (0, f"{SETTLER}\n{OPENER}\n"), done
    assert f"Wrote opener and factories to {path}." in done.err
    assert path.stat().st_mode & 0o777 == 0o600
    lines = path.read_text().splitlines()
    assert [line for line in lines if line not in mine.splitlines()] == [
        f'opener = "{OPENER}"',
        f'factories = ["{FACTORY}"]',
    ]
    assert set(mine.splitlines()) < set(lines)

    # another one joins the existing ones; nothing is written where nothing changes
    again = await run("chain", "deploy", "far-away", "--opener", "--factory", OTHER, "--yes")
    assert written(home)["factories"] == [FACTORY, OTHER]
    assert again.out == done.out
    before = path.read_text()
    await run("chain", "deploy", "far-away", "--factory", OTHER, "--factory", FACTORY, "--yes")
    assert path.read_text() == before
    (known_chain,) = chain_files.read_all(home).values()
    assert (known_chain.opener, known_chain.gas_reserve) == (OPENER.lower(), 7)


async def test_forwarder_is_deployed_once_and_written_into_the_settings(run, home, chain):
    added = await run(*add(chain, "--new-relayer", "--treasury", TREASURY))
    relayer, before = line_of(added, "Relayer: "), written(home)
    words = ("chain", "deploy", "far-away", "--forwarder", "--yes")
    await chain.fund(relayer)
    assert (await run("chain", "deploy", "far-away", "--yes")).out == f"{SETTLER}\n"
    done = await run(*words)
    assert (done.status, done.out) == (0, f"{SETTLER}\n{FORWARDER}\n"), done
    assert f"The forwarder will be at {FORWARDER}." in done.err
    code = await chain.ask("eth_getCode", FORWARDER, "latest")
    assert code == f"0x{load_forwarder_contract().runtime.hex()}"
    spent = await chain.ask("eth_getTransactionCount", relayer, "latest")
    again = await run(*words)
    assert (again.status, again.out) == (0, done.out)
    assert "Far Away already has Florin's forwarder." in again.err
    assert await chain.ask("eth_getTransactionCount", relayer, "latest") == spent == "0x2"
    assert written(home) == {**before, "forwarder": {"address": FORWARDER}}


async def test_chain_before_cancun_is_refused_before_anything_is_paid(run):
    async with foreign_chains.open_on_anvil(424242, "--hardfork", "shanghai") as chain:
        added = await run(*add(chain, "--new-relayer", "--treasury", TREASURY))
        relayer = line_of(added, "Relayer: ")
        await chain.fund(relayer)
        output = refused(await run("chain", "deploy", "far-away", "--forwarder", "--yes"))
        assert "Far Away: the chain lacks transient storage (EIP-1153" in output
        assert await chain.ask("eth_getTransactionCount", relayer, "latest") == "0x0"


async def test_deploy_keeps_hand_written_chain_settings(run, home, chain, tmp_path):
    added = await run(*add(chain, "--new-relayer", "--treasury", TREASURY))
    await chain.fund(line_of(added, "Relayer: "))
    path = home / "chains" / "far-away.toml"
    by_hand = path.read_text().replace("[evm]", '[evm] # mine\n"factories" = [ # one a line\n]')
    path.write_text(by_hand)
    done = await run("chain", "deploy", "far-away", "--factory", FACTORY, "--yes")
    assert done.status == 0, done
    assert f"Wrote opener and factories to {path}." in done.err
    (known_chain,) = chain_files.read_all(home).values()
    assert (known_chain.opener, known_chain.factories) == (OPENER.lower(), (FACTORY.lower(),))
    assert "[evm] # mine\n" in path.read_text()
    path.write_text(by_hand)
    # the same chain in florin.toml
    (tmp_path / "florin.toml").write_text(
        path.read_text().replace("[evm]", "[[chains]]").replace("[[evm.", "[[chains.")
    )
    path.unlink()
    text = (tmp_path / "florin.toml").read_text()
    (tmp_path / "florin.toml").write_text(text.replace('["keys/', f'["{home}/keys/'))
    done = await run("chain", "deploy", CHAIN, "--factory", FACTORY, "--yes")
    assert done.status == 0, done
    assert "Far Away is in your florin.toml. Add these lines to its table:" in done.err


# ids


async def test_assets_are_printed_with_their_ids(run, home, chain):
    more = ("--new-relayer", "--treasury", TREASURY, "--coin")
    added = await run(*add(chain, *more))
    token, coin = f"{CHAIN}/erc20:{chain.token}", f"{CHAIN}/slip44:60"
    assert f"tUSD is {token}\n" in added.err
    assert f"ETH is {coin}\n" in added.err
    await chain.fund(line_of(added, "Relayer: "))
    assert (await run("chain", "deploy", CHAIN, "--yes")).status == 0
    with (home / "chains" / "far-away.toml").open("a") as file:
        file.write(f'[[evm.assets]]\naddress = "{FACTORY}"\nname = "x"\nsymbol = "X"\n')
        file.write('decimals = 6\npeg = "USD"\n')
    listed = await run("chain", "list")
    rows = [line.split() for line in listed.out.splitlines()]
    at = rows.index(["Asset", "Symbol", "Taken"])
    assert rows[at + 1 : at + 4] == [
        [token, "tUSD", "yes"],
        [f"{CHAIN}/erc20:{FACTORY.lower()}", "X", "no"],
        [coin, "ETH", "yes"],
    ]


async def test_stored_pace_is_shown_by_chain_list_and_doctor(run, home, chain):
    await run(*add(chain, "--new-relayer", "--treasury", TREASURY))
    (row,) = json.loads((await run("chain", "list", "--json")).out)["chains"]
    assert row["pace"] == "-"
    store = await open_store(StateFolder(home).database_path)
    pace, times = ChainPace(0.2, 2.0, at_us=1), SettleTimes()
    for n in range(5):
        times = times.add(10.4, f"payer {n}", f"merchant {n}")
    await store.write(observed.save(CHAIN, pace, times))
    await store.close()
    (row,) = json.loads((await run("chain", "list", "--json")).out)["chains"]
    assert row["pace"] == "0.2 s"
    output = (
        f"{CHAIN}: a block every 0.2 s, usually 2 s; half of its payments are final within 10.4 s"
    )
    assert output in (await run("doctor")).out
