"""`florin chain` on chains that know nothing of Florin: what it adds, deploys and refuses."""

from __future__ import annotations

import asyncio
import json
import shutil
import stat
from functools import partial

import pytest
from florin_sandbox.devnet.evm.token_fees import TokenFees
from florin_sandbox.devnet.genesis import DEVNET, load_artifact
from florin_sandbox.devnet.solana import SOLANA_DEVNET, SolanaDevChain, SolanaDevSettings
from florin_server.app.chains.setup import load_opener_contract
from florin_server.cli.main import app
from florin_server.domain.caip import format_checksum_address
from florin_server.rails.connection.jsonrpc import JsonRpcClient, LocalTransport
from florin_server.rails.evm.gas_money import FEE_MANAGER
from florin_server.rails.evm.known_contracts import DEPLOYER
from florin_server.rails.evm.setup.deployment import DEPLOYER_CODE
from florin_server.rails.networks import chain_files
from typer.testing import CliRunner

from tests.support import foreign_chains
from tests.support.anvil_node import sign_faucet_transaction
from tests.support.api import RestApi
from tests.support.chain_commands import (
    ENVIRONMENT,
    OPENER,
    PASSWORD,
    SETTLER,
    TREASURY,
    ChainCommands,
    build_add_arguments,
    line_of,
    refused,
)
from tests.support.command import CommandForks, CommandResult
from tests.support.solana import SolanaTestWallet
from tests.support.wallet import EvmTestWallet

pytestmark = pytest.mark.long

ORDER = {"amount": {"unit": "iso4217/USD", "value": "1250"}, "referenceId": "order-1001"}
PRICE = 12_500_000
OPENER_CODE = load_opener_contract().runtime
BASE = 8453
EURC = "0x60a3e35cc302bfa44cb288bc5a4f316fdb1adb42"
USDC = "0x833589fcd6edb6e08f4c7c32d4f71b54bda02913"
WETH = "0x4200000000000000000000000000000000000006"


@pytest.fixture
def run(home, forks):
    return ChainCommands(forks, home).run_chain


def relayer_of(done: CommandResult) -> str:
    return line_of(done, "Relayer: ")


async def paid(
    run, forks: CommandForks, home, session, name: str, wallet: EvmTestWallet | SolanaTestWallet
) -> dict:
    """Return a wallet's final payment on a Florin that `florin up` runs."""
    running = await asyncio.to_thread(forks.start_lasting, "up", home=home, **ENVIRONMENT)
    try:
        for word in ("deploy", "remove"):
            assert "stop Florin first" in refused(await run(word, name))
        api = RestApi(session, running.env["FLORIN_BASE_URL"], running.env)
        # another chain is offered, and not changed
        await api.options((await api.create(ORDER))["paymentId"], [wallet.account])
        payment_id = (await api.create(ORDER))["paymentId"]
        (option,) = (await api.options(payment_id, [wallet.account]))["options"]
        if option["actions"][0]["type"] == "build":
            data = option["actions"][0]["data"]["data"]
            option |= {"actions": (await api.fetch(payment_id, option["id"], data))["actions"]}
        await api.confirm(payment_id, option["id"], wallet.execute_all(option))
        async with asyncio.timeout(30):
            *_, final = [state async for state in api.watch(payment_id)]
        return final
    finally:
        await asyncio.to_thread(running.__exit__)


async def gets_its_contracts(
    run, chain: foreign_chains.ForeignChain, chain_id: int, relayer: str
) -> None:
    """Deploy the contracts once the relayer can pay for them; each is deployed once."""
    assert "has no balance of the chain's coin" in refused(await run("deploy", "far-away", "--yes"))
    await chain.fund(relayer, 10**14)
    assert "but this can cost" in refused(await run("deploy", "far-away", "--yes"))
    await chain.fund(relayer)
    done = await run("deploy", "far-away", "--yes")
    assert (done.status, done.out) == (0, SETTLER + "\n"), done
    assert "at most 0." in done.err
    count = await chain.ask("eth_getTransactionCount", relayer, "latest")
    again = await run("deploy", f"eip155:{chain_id}", "--yes")
    assert (again.status, again.out) == (0, SETTLER + "\n")
    assert "already has Florin's settlement contract" in again.err
    assert await chain.ask("eth_getTransactionCount", relayer, "latest") == count == "0x1"

    both = await run("deploy", "far-away", "--opener", "--yes")
    assert (both.status, both.out) == (0, f"{SETTLER}\n{OPENER}\n"), both
    assert "The opener will be at" in both.err
    assert await chain.ask("eth_getCode", OPENER, "latest") == f"0x{OPENER_CODE.hex()}"
    assert (await run("deploy", "far-away", "--opener", "--yes")).out == both.out


OWN = ("--chain", "eip155:424242", "--name", "Own", "--live", "--new-relayer")
OLD_SETTLER = ("--settler", DEVNET.settler)


async def test_new_contract_replaces_the_former_which_is_still_followed(run, home):
    async with foreign_chains.open_embedded(424242) as chain:
        added = await run(
            *build_add_arguments(chain, *OWN, "--token", f"{chain.token}:USD", *OLD_SETTLER)
        )
        assert added.status == 0, added
        await chain.fund(relayer_of(added))
        assert "use --replace to settle new payments" in refused(
            await run("deploy", "Own", "--yes")
        )
        done = await run("deploy", "Own", "--replace", "--yes")
        assert (done.status, done.out) == (0, SETTLER + "\n"), done
        assert "Wrote settler and former_settlers to " in done.err
        (found_chain,) = chain_files.read_all(home).values()
        assert (found_chain.settler, found_chain.former_settlers) == (
            SETTLER.lower(),
            (DEVNET.settler,),
        )
        # and again: it is deployed, and known
        assert (await run("deploy", "Own", "--replace", "--yes")).out == SETTLER + "\n"
        assert list(chain_files.read_all(home).values()) == [found_chain]


async def test_contract_of_another_version_is_not_replaced_while_it_may_be_used(run, home):
    code = {OPENER.lower(): OPENER_CODE}
    async with foreign_chains.open_embedded(424242, code) as chain:
        words = (*OWN, "--token", f"{chain.token}:USD", "--settler", OPENER)
        added = await run(*build_add_arguments(chain, *words))
        path = home / "chains" / "own.toml"
        assert path.exists(), added
        before = path.read_text()
        output = refused(await run("deploy", "Own", "--replace", "--yes"))
        assert "Wait until no payment is open" in output
        assert path.read_text() == before


# the whole way


# on a known network a payment is final after the network's seconds of blocks
BLOCKS = partial(foreign_chains.open_embedded, block_interval_s=0.5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("opened", "chain_id"),
    [(BLOCKS, 84532), (foreign_chains.open_on_anvil, 424242)],
    ids=["embedded", "anvil"],
)
async def test_a_chain_is_added_gets_its_contract_and_takes_money(
    opened, chain_id, run, home, session, forks
):
    async with opened(chain_id) as chain:
        added = await run(
            *build_add_arguments(chain, "--new-relayer", "--confirmations", "1", "--poll-ms", "50"),
            *("--chain", f"eip155:{chain_id}", "--name", "Far Away"),
            *("--token", f"{chain.token}:USD"),
        )
        assert added.status == 0, added
        (path,) = added.out.splitlines()
        assert path == str(home / "chains" / "far-away.toml")
        assert stat.S_IMODE((home / "chains" / "far-away.toml").stat().st_mode) == 0o600
        assert "'Test Dollar', 6 decimals, signs as 'Test Dollar' version '2'" in added.err
        assert PASSWORD not in added.out + added.err

        relayer = relayer_of(added)
        await gets_its_contracts(run, chain, chain_id, relayer)

        # a token that differs from its settings affects only itself
        with (home / "chains" / "far-away.toml").open("a") as file:
            file.write(f'[[evm.assets]]\naddress = "{DEPLOYER}"\nname = "x"\nsymbol = "X"\n')
            file.write('decimals = 6\npeg = "USD"\n')
        listed = await run("list")
        row = listed.out.splitlines()[1].split("  ")
        assert [item.strip() for item in row if item.strip()] == [
            f"eip155:{chain_id}",
            "test",
            "1 wrong",
            "-",
            "tUSD",
            relayer,
            "Far Away",
        ]
        assert f"X at {DEPLOYER} is not a token" in listed.err
        doctor = await asyncio.to_thread(forks, "doctor", home=home, **ENVIRONMENT)
        assert doctor.status == 1
        assert (
            f"eip155:{chain_id}: chain_unusable: Far Away: X at {DEPLOYER} is not a token"
            in doctor.out
        )

        wallet = EvmTestWallet(f"eip155:{chain_id}")
        await chain.give(wallet.address, 100_000_000)
        final = await paid(run, forks, home, session, "far-away", wallet)
        assert final["status"] == "succeeded"
        assert await foreign_chains.get_balance(chain, TREASURY) == PRICE
        assert await foreign_chains.get_balance(chain, wallet.address) == 100_000_000 - PRICE
        receipt = await chain.ask("eth_getTransactionReceipt", final["info"]["txId"])
        assert (receipt["from"].lower(), receipt["to"].lower()) == (relayer, SETTLER.lower())

        output = refused(await run("remove", "far-away"))
        assert "has 1 payments that buyers can still pay: use --force" in output
        removed = await run("remove", "far-away", "--force")
        assert (removed.status, removed.out) == (0, "Far Away is removed.\n")
        assert not (home / "chains" / "far-away.toml").exists()
        assert (home / "keys" / "far-away-relayer.json").exists()


@pytest.mark.slow
async def test_a_solana_cluster_is_added_and_takes_money(run, home, session, forks):
    chain = await SolanaDevChain.open(None, SolanaDevSettings(finalized_slots=1))
    try:
        rpc = JsonRpcClient(LocalTransport(chain.handle))
        token = SOLANA_DEVNET.tokens[0]
        treasury = SolanaTestWallet()
        added = await run(
            *("add", "--rpc-url", f"http://127.0.0.1:{await chain.serve_http()}"),
            *("--treasury", treasury.address, "--yes", "--new-relayer", "--poll-ms", "50"),
            *("--chain", SOLANA_DEVNET.chain_id, "--name", "Own Cluster"),
            *("--token", f"{token.address}:USD:tUSD", "--coin"),
        )
        assert added.status == 0, added
        assert "has too little coin" in added.err
        assert f"the treasury {treasury.address} has less than" in added.err
        unpriced = f"the settings have no rate for {SOLANA_DEVNET.chain_id}/slip44:501"
        assert f"SOL is not offered for prices in a currency: {unpriced}.\n" in added.err
        assert 'symbol = "SOL"' in (home / "chains" / "own-cluster.toml").read_text()
        gift = {"accounts": [relayer_of(added), treasury.address], "tokens": [], "lamports": 10**10}
        await rpc.call("florin_faucet", gift)
        listed = await run("list")
        assert "ok" in listed.out
        assert f"Own Cluster: SOL is not offered for prices in a currency: {unpriced}" in listed.err
        doctor = await asyncio.to_thread(forks, "doctor", home=home, **ENVIRONMENT)
        assert unpriced in doctor.out
        rate = {f"{SOLANA_DEVNET.chain_id}/slip44:501": {"USD": "150"}}
        priced = await run("list", FLORIN_RATES=json.dumps(rate))
        assert (priced.status, "no rate" in priced.err) == (0, False)
        assert "needs no settlement contract" in refused(await run("deploy", "own-cluster"))

        wallet = SolanaTestWallet()
        await rpc.call("florin_faucet", {"accounts": [wallet.address], "tokens": [token.address]})
        final = await paid(run, forks, home, session, "own-cluster", wallet)
        assert final["status"] == "succeeded"
    finally:
        await chain.close()


# registered networks


@pytest.fixture
async def base():
    """Serve a node that looks like Base's, with three tokens where the registry has some."""
    dollar, euro = (load_artifact(name).runtime for name in ("TestDollar", "TestEuro"))
    async with foreign_chains.open_embedded(
        BASE, {EURC: dollar, USDC: dollar, WETH: euro}
    ) as chain:
        yield chain


async def test_registered_tokens_are_taken_if_they_are_as_registered(run, home, base):
    done = await run(*build_add_arguments(base))
    assert done.status == 0, done
    assert "The node serves Base (eip155:8453)." in done.err
    assert "cannot reach: set FLORIN_PAY_URL to the https URL that buyers will open." in done.err
    assert "EURC at 0x60a3E35Cc302bFA44Cb288Bc5a4F316Fdb1adb42: 'Test Dollar'" in done.err
    assert "signs as ('Test Dollar', '2'), not as ('USD Coin', '2')" in done.err
    assert f"WETH at {WETH} has 6 decimals, not 18" in done.err
    assert "AUSD at 0x00000000eFE302BEAA2b3e6e1b18d08D69a9012a is not a token" in done.err
    written = (home / "chains" / "base.toml").read_text()
    assert 'domain_name = "Test Dollar"' in written
    assert 'peg = "EUR"' in written
    assert "USDC" not in written


@pytest.mark.parametrize(
    ("token", "words"),
    [
        ("WETH", "has 6 decimals, not 18"),
        ("USDC", "signs as ('Test Dollar', '2'), not as ('USD Coin', '2')"),
        ("AUSD", "is not a token"),
        ("DOGE", "neither the address of a token nor registered for Base"),
        (f"{USDC}:EUR", "USDC is not worth one EUR"),
        (DEPLOYER, "is not a token"),
    ],
)
async def test_requested_token_must_match_the_chain(run, home, base, token, words):
    output = refused(await run(*build_add_arguments(base, "--token", token)))
    assert output.startswith("Not added: ")
    assert words in output
    assert not (home / "chains").exists()


# impossible requests


async def test_a_node_that_is_none_or_serves_something_else_is_refused(run, home, base):
    async def read_refusal(url: str, *more: str) -> str:
        words = ("add", "--rpc-url", url, "--treasury", TREASURY, "--yes", *more)
        return refused(await run(*words))

    assert "begins with http:// or https://" in await read_refusal("ftp://node")
    assert "the node cannot be used" in await read_refusal("http://127.0.0.1:1")
    assert "serves Base (eip155:8453), not eip155:1" in await read_refusal(
        base.url, "--chain", "eip155:1"
    )
    async with foreign_chains.open_embedded(424242) as unknown:
        sentence = await read_refusal(unknown.url)
        assert "which is not in the registry: use --chain eip155:424242" in sentence
    assert not (home / "chains").exists()


async def test_unsupported_network_is_refused_with_the_reason(run):
    async with foreign_chains.open_embedded(5042) as chain:
        output = refused(
            await run(*build_add_arguments(chain, "--chain", "eip155:5042", "--name", "Arc"))
        )
    assert "Arc (eip155:5042) is not supported: it charges fees in the balance" in output


async def test_live_chain_without_a_finality_rule_is_named_by_add_and_doctor(run, home, forks):
    async with foreign_chains.open_embedded(424242) as chain:
        words = ("--chain", "eip155:424242", "--name", "Own", "--live", "--new-relayer")
        added = await run(*build_add_arguments(chain, *words, "--token", f"{chain.token}:USD"))
        output = "Own: 12 blocks alone make a payment final"
        assert output in added.err, added
        doctor = await asyncio.to_thread(forks, "doctor", home=home, **ENVIRONMENT)
        assert f"! {output}" in doctor.out
        path = home / "chains" / "own.toml"
        path.write_text(path.read_text().replace("[evm]\n", "[evm]\nfinal_after_s = 60\n"))
        doctor = await asyncio.to_thread(forks, "doctor", home=home, **ENVIRONMENT)
        assert "settings" in doctor.out
        assert output not in doctor.out
        amounts = '[[evm.larger_amounts]]\nfrom_amount = {{ {} = "1000" }}\nfinal_after_s = {}\n'
        written = path.read_text()
        path.write_text(written + amounts.format("tUSD", 60))
        doctor = await asyncio.to_thread(forks, "doctor", home=home, **ENVIRONMENT)
        assert "final_after_s is 60, and 60 for smaller amounts" in doctor.out + doctor.err
        path.write_text(written + amounts.format("tUSD", 300))
        rule = "Own: payments are final after 60 s of blocks; from 1000 tUSD after 300 s"
        doctor = await asyncio.to_thread(forks, "doctor", home=home, **ENVIRONMENT)
        assert f"! {rule}" in doctor.out
        assert rule in (await run("list")).err


async def test_tempo_is_added_deployed_to_and_its_keys_choose_the_fee_token(run, home):
    path_usd = "0x20c0000000000000000000000000000000000000"
    code = {path_usd: load_artifact("TestDollar").runtime}
    fees = TokenFees(path_usd, slot=2, manager=FEE_MANAGER)
    async with foreign_chains.open_embedded(42431, code, fees=fees) as chain:
        assert "has no native coin" in refused(
            await run(*build_add_arguments(chain, "--coin", "--new-relayer"))
        )
        added = await run(*build_add_arguments(chain, "--token", "pathUSD"))
        assert added.status == 0, added
        relayer = relayer_of(added)
        assert f"some of the fee token {path_usd} for gas" in added.err
        assert "has too little of the fee token" in added.err
        poor = refused(await run("deploy", "tempo-moderato", "--yes"))
        assert f"has no balance of the fee token {path_usd}" in poor
        data = bytes.fromhex(f"a9059cbb{relayer[2:].lower().rjust(64, '0')}{10**9:064x}")
        nonce = int(await chain.ask("eth_getTransactionCount", DEVNET.faucet, "latest"), 16)
        raw = sign_faucet_transaction(
            nonce, chainId=42431, to=bytes.fromhex(path_usd[2:]), data=data
        )
        await chain.ask("eth_sendRawTransaction", "0x" + raw.hex())
        done = await run("deploy", "tempo-moderato", "--yes")
        assert (done.status, done.out) == (0, SETTLER + "\n"), done
        assert f"of the fee token {path_usd} (" in done.err
        assert (
            f"Let {format_checksum_address(relayer)} pay fees in {path_usd}: at most 0." in done.err
        )
        call = {
            "to": FEE_MANAGER,
            "data": "0x" + bytes(4).hex() + relayer[2:].lower().rjust(64, "0"),
        }
        assert (await chain.ask("eth_call", call, "latest")).endswith(path_usd[2:])
        count = await chain.ask("eth_getTransactionCount", relayer, "latest")
        assert (await run("deploy", "tempo-moderato", "--yes")).status == 0
        assert await chain.ask("eth_getTransactionCount", relayer, "latest") == count == "0x2"


async def test_a_chain_is_there_once(run, base):
    assert (await run(*build_add_arguments(base))).status == 0
    assert "Base (eip155:8453) is already added" in refused(await run(*build_add_arguments(base)))


async def test_other_code_where_the_contract_belongs_is_refused(run):
    junk = {SETTLER.lower(): load_artifact("TestEuro").runtime}
    async with foreign_chains.open_embedded(84532, junk) as chain:
        done = await run(*build_add_arguments(chain, "--token", f"{chain.token}:USD"))
        assert done.status == 1
        assert f"the code at {SETTLER.lower()} is not Florin's" in done.err.splitlines()[-1]
        output = refused(await run("deploy", "Base Sepolia", "--yes"))
        assert f"the code at {SETTLER.lower()} is not Florin's" in output


async def test_a_treasury_that_relays_or_is_elsewhere_is_refused(run, base, tmp_path):
    key = tmp_path / "key"
    key.write_text("0x" + "77" * 32)
    key.chmod(0o600)
    output = refused(await run(*build_add_arguments(base, "--relayer-key-file", str(key))))
    assert "must not be the relayer's account" in output
    words = ("add", "--rpc-url", base.url, "--yes", "--treasury")
    assert "is on another chain" in refused(await run(*words, f"eip155:1:{TREASURY}"))
    done = await run("add", "--rpc-url", base.url, "--yes")
    assert (done.status, done.err.splitlines()[-1]) == (
        2,
        "Not done: --treasury is missing: add it, or leave out --yes",
    )


async def test_missing_options_are_prompted_for(home, base):
    answers = (base.url, "new", TREASURY, "EURC", "7", "90", "y", "y")
    commands = CliRunner()
    done = await asyncio.to_thread(
        commands.invoke,
        app,
        ["chain", "add", "--home", str(home)],
        input="\n".join(answers) + "\n",
        env={"FLORIN_KEYSTORE_PASSWORD": PASSWORD},
    )
    path = home / "chains" / "base.toml"
    # the new key has no coin
    assert done.exit_code == 1
    assert str(path) in done.stdout
    *_, last = done.stderr.splitlines()
    assert "Added, but not deployed: Base: 0x" in last
    (chain,) = chain_files.read_all(home).values()
    assert (chain.confirmations, chain.fee_max) == (7, 90 * 10**9)
    assert [token.symbol for token in chain.assets] == ["EURC"]
    assert chain.relayer_keystores == (home / "keys" / "base-relayer.json",)


async def test_doctor_reports_chain_files_readable_by_other_users(run, home, base, forks):
    assert (await run(*build_add_arguments(base, "--new-relayer", "--token", "EURC"))).status == 0
    (home / "keys" / "base-relayer.json").chmod(0o640)
    (home / "chains" / "base.toml").chmod(0o604)
    doctor = await asyncio.to_thread(forks, "doctor", home=home, **ENVIRONMENT)
    assert "other users could read base.toml, base-relayer.json; fixed" in doctor.out
    other = home.parent / "relayer.json"
    shutil.move(home / "keys" / "base-relayer.json", other)
    other.chmod(0o640)
    path = home / "chains" / "base.toml"
    path.write_text(path.read_text().replace("keys/base-relayer.json", str(other)))
    doctor = await asyncio.to_thread(forks, "doctor", home=home, **ENVIRONMENT)
    assert f"other users can read {other}: run `chmod go= {other}`" in doctor.out


async def test_a_new_key_needs_a_password(run, base, home):
    output = refused(
        await run(*build_add_arguments(base, "--new-relayer"), FLORIN_KEYSTORE_PASSWORD="")
    )
    assert "keystores need a password" in output
    assert not (home / "keys").exists()


# the deployer itself


async def test_missing_deployer_is_created_by_its_own_transaction(run):
    async with foreign_chains.open_on_anvil(424242, "--disable-default-create2-deployer") as chain:
        assert await chain.ask("eth_getCode", DEPLOYER, "latest") == "0x"
        added = await run(
            *build_add_arguments(chain, "--chain", "eip155:424242", "--name", "Bare"),
            *("--token", f"{chain.token}:USD"),
        )
        await chain.fund(relayer_of(added))
        done = await run("deploy", "bare", "--yes")
        assert (done.status, done.out) == (0, SETTLER + "\n"), done
        assert "creating it costs 0.010000 of the native coin" in done.err
        assert await chain.ask("eth_getCode", DEPLOYER, "latest") == "0x" + DEPLOYER_CODE.hex()


async def test_node_that_refuses_the_deployer_transaction_is_reported(run):
    async with foreign_chains.open_embedded(84532, deployer=False) as chain:
        added = await run(*build_add_arguments(chain, "--token", f"{chain.token}:USD"))
        await chain.fund(relayer_of(added))
        output = refused(await run("deploy", "base-sepolia", "--yes"))
        assert "only replay-protected" in output
        assert f"ask the chain's operators for the deployer at {DEPLOYER}" in output
