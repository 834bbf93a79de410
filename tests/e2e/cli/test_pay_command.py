"""`florin pay` pays every kind of option on both embedded chains, and nothing else."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import aiohttp
import pytest
from eth_account import Account
from florin_sandbox.devnet.genesis import DEVNET
from florin_sandbox.devnet.solana import SOLANA_DEVNET
from solders.keypair import Keypair

from tests.support.chain import ChainClient
from tests.support.wallet import NON_SIGNING_ADDRESS, EvmTestWallet

pytestmark = pytest.mark.long

EVM = f"eip155:{DEVNET.chain_id}"
ETHER, SOL = f"{EVM}/slip44:60", f"{SOLANA_DEVNET.chain_id}/slip44:501"
TUSD, TEUR = (f"{EVM}/erc20:{token.address}" for token in DEVNET.tokens)
ON_SOLANA = [f"{SOLANA_DEVNET.chain_id}/token:{token.address}" for token in SOLANA_DEVNET.tokens]
PASSWORD = "correct horse"
DATA = {
    "fullName": "Ada Marker",
    "dob": "1987-06-05",
    "pobCountry": "DE",
    "pobAddress": "Köln",
    "tosConfirmed": True,
}


@pytest.fixture(scope="module")
def up(tmp_path_factory, forks):
    """Start a Florin that takes every kind of asset, and requires buyer data from 99 dollars on."""
    home = tmp_path_factory.mktemp("pay") / "home"
    settings = {
        "FLORIN_RATES": json.dumps({ETHER: {"GBP": "2000"}, SOL: {"GBP": "120"}}),
        # transactions are mined at once
        "FLORIN_EMBEDDED__BLOCK_INTERVAL_S": "0",
        "FLORIN_EMBEDDED__CONFIRMATIONS": "1",
        "FLORIN_CAPTURE__ENABLED": "true",
        "FLORIN_CAPTURE__FROM_AMOUNT": json.dumps({"USD": 9900, "EUR": 9900, "GBP": 9900}),
    }
    with forks.start_lasting("up", home=home, **settings) as command:
        yield command
        command.send_signal(signal.SIGTERM)
        done = command.wait_ended()
        assert (done.status, done.err) == (0, "")


@pytest.fixture
def link(up, forks):
    """Return the link of a new payment."""

    def link(*amount: str) -> str:
        done = forks("payments", "create", *amount, home=up.home.path)
        assert done.status == 0, done
        return done.out.strip()

    return link


@pytest.fixture
def pay(up, forks):
    """Return the command, with its steps as they were printed."""

    def pay(link: str, *options: str, **changes: str) -> tuple[int, list[dict], str]:
        done = forks("pay", link, "--json", *options, home=up.home.path, **changes)
        return done.status, [json.loads(line) for line in done.out.splitlines()], done.err

    return pay


@pytest.mark.parametrize(
    ("amount", "option", "methods"),
    [
        ("12.50 USD", TUSD, ["eth_signTypedData_v4"]),
        ("12.50 EUR", TEUR, ["eth_sendTransaction", "eth_signTypedData_v4"]),
        ("30 GBP", ETHER, ["eth_sendTransaction"]),
        ("12.50 USD", ON_SOLANA[0], ["solana_signTransaction"]),
        ("12.50 USD", ON_SOLANA[1], ["solana_signTransaction"]),
        ("30 GBP", SOL, ["solana_signTransaction"]),
    ],
    ids=["EIP-3009", "Permit2", "coin", "token", "token of Token-2022", "SOL"],
)
def test_each_kind_of_option_is_paid(link, pay, amount, option, methods):
    status, steps, err = pay(link(amount), "--option", option)
    assert (status, err) == (0, "")
    assert [step["method"] for step in steps if step["step"] == "sign"] == methods
    last = steps[-1]["status"]
    assert (last["status"], last["isFinal"]) == ("succeeded", True)
    assert last["info"]["optionAmount"]["unit"] == f"caip19/{option}"
    sent = [step["txId"] for step in steps if step["step"] == "send"]
    assert len(sent) == methods.count("eth_sendTransaction")


@pytest.mark.parametrize(
    ("amount", "option"),
    [("12.50 USD", []), ("12.50 EUR", ["--option", "tEUR"]), ("30 GBP", ["--option", ETHER])],
    ids=["signing token", "token", "coin"],
)
def test_each_kind_of_asset_is_paid_by_a_plain_transfer(link, pay, amount, option):
    status, steps, err = pay(link(amount), "--send", *option)
    assert (status, err) == (0, "")
    (address,) = [step["address"] for step in steps if step["step"] == "address"]
    (signed,) = [step for step in steps if step["step"] == "sign"]
    assert signed["method"] == "eth_sendTransaction"
    assert f"to {address['address'].lower()}, which passes" in signed["what"]
    assert len([step for step in steps if step["step"] == "send"]) == 1
    last = steps[-1]["status"]
    assert (last["status"], last["isFinal"]) == ("succeeded", True)
    assert last["info"]["optionAmount"]["unit"] == f"caip19/{address['asset']}"
    assert last["info"]["optionAmount"]["value"] == address["route"]["value"]


def test_token_is_paid_by_x402(link, pay):
    status, steps, err = pay(link("12.50 USD"), "--x402", "--chain", EVM)
    assert (status, err) == (0, "")
    assert {"step": "assets", "assets": [TUSD.lower()]} in steps
    (address,) = [step["address"] for step in steps if step["step"] == "address"]
    (signed,) = [step for step in steps if step["step"] == "sign"]
    assert signed["method"] == "eth_signTypedData_v4"
    assert f"to {address['address'].lower()}, which passes" in signed["what"]
    # the wallet sends nothing itself
    assert not {"send", "fee"} & {step["step"] for step in steps}
    (handed_in,) = [step for step in steps if step["step"] == "x402"]
    assert handed_in["status"] in {200, 202}
    last = steps[-1]["status"]
    assert (last["status"], last["isFinal"]) == ("succeeded", True)
    assert last["info"]["optionAmount"]["value"] == address["route"]["value"]


def test_token_is_paid_by_x402_with_an_approval_of_permit2(link, pay, tmp_path):
    methods = ["eth_sendTransaction", "eth_signTypedData_v4"]
    options = ["--x402", "--chain", EVM, *keystore(tmp_path, bytes(Account.create().key))]
    status, steps, err = pay(link("12.50 EUR"), *options, "--yes")
    assert (status, err) == (0, "")
    signed = [step for step in steps if step["step"] == "sign"]
    assert [step["method"] for step in signed] == methods
    assert signed[0]["what"].startswith(f"lets {DEVNET.permit2} take 12.50 tEUR")
    assert signed[1]["what"].startswith("lets the server send by Permit2 12.50 tEUR to 0x")
    assert len([step for step in steps if step["step"] == "send"]) == 1
    last = steps[-1]["status"]
    assert (last["status"], last["info"]["optionAmount"]["unit"]) == ("succeeded", f"caip19/{TEUR}")
    # the approval was used up
    status, steps, err = pay(link("1 EUR"), *options, "--yes", "--max-fee", "0.000000001")
    assert (status, "sign" in {step["step"] for step in steps}) == (1, True)
    message = json.loads(err)["error"]["message"]
    assert f"must approve Permit2 ({DEVNET.permit2}) for 1.00 tEUR first: " in message
    assert [step for step in steps if step["step"] in {"send", "x402"}] == []


@pytest.mark.parametrize("token", [0, 1], ids=["token", "token of Token-2022"])
def test_token_on_solana_is_paid_by_x402(link, pay, token):
    option = ["--option", ON_SOLANA[token], "--chain", SOLANA_DEVNET.chain_id]
    # the first payment in a token opens the merchant's account
    assert pay(link("5 USD"), *option)[0] == 0
    status, steps, err = pay(link("12.50 USD"), "--x402", *option)
    assert (status, err) == (0, "")
    (signed,) = [step for step in steps if step["step"] == "sign"]
    assert signed["method"] == "solana_signTransaction"
    assert signed["what"].startswith("pays 12.50 ")
    assert not {"address", "send", "fee"} & {step["step"] for step in steps}
    (handed_in,) = [step for step in steps if step["step"] == "x402"]
    last = steps[-1]["status"]
    assert (last["status"], last["isFinal"]) == ("succeeded", True)
    assert handed_in["transaction"] in {"", last["info"]["txId"]}
    assert last["info"]["optionAmount"]["unit"] == f"caip19/{ON_SOLANA[token]}"
    unreachable = ["--rpc-url", f"{SOLANA_DEVNET.chain_id}=http://127.0.0.1:1"]
    status, steps, err = pay(link("12.50 USD"), "--x402", *option, *unreachable)
    assert (status, "no response" in err) == (1, True)
    assert "sign" not in {step["step"] for step in steps}


def test_link_for_programs_is_paid_by_the_key_of_a_file(up, link, pay, tmp_path):
    options = ["--x402", "--chain", EVM, *keystore(tmp_path, bytes(Account.create().key))]
    created = link("12.50 USD")
    base, _, payment_id = created.rpartition("/")
    url = f"{base}/x402/{payment_id}"
    status, steps, err = pay(url, *options, "--yes", "--max", "12.49 USD")
    assert (status, steps[-1]["step"]) == (1, "address")
    assert "--max is 12.49 USD" in json.loads(err)["error"]["message"]
    status, steps, err = pay(url, *options)
    assert (status, steps[-1]["step"]) == (2, "sign")
    assert "use --yes" in json.loads(err)["error"]["message"]
    status, steps, err = pay(url, *options, "--yes", "--max", "12.50 USD")
    assert (status, err, steps[-1]["status"]["status"]) == (0, "", "succeeded")
    status, _, err = pay(url, *options, "--yes")
    assert (status, "already succeeded" in err) == (6, True)


def test_payment_by_x402_that_is_impossible_is_reported(link, pay, tmp_path):
    def read_error(amount: str, *options: str, expected: int = 1) -> str:
        status, steps, err = pay(link(amount), "--x402", *options)
        assert (status, "sign" in [step["step"] for step in steps]) == (expected, False), steps
        return json.loads(err)["error"]["message"]

    assert "cannot be paid by x402" in read_error("99 USD")
    assert "accepts no asset that" in read_error("5 USD", "--chain", "eip155:1")
    assert "0 options match 'tDOGE'" in read_error("5 USD", "--option", "tDOGE", expected=2)
    assert (
        "use one of them"
        in json.loads(pay(link("5 USD"), "--x402", "--send")[2])["error"]["message"]
    )
    file = tmp_path / "data.json"
    file.write_text(json.dumps(DATA))
    assert "leave out --data" in read_error("5 USD", "--data", str(file), expected=2)


def test_people_read_every_step_of_a_payment_by_x402(link, up, forks):
    done = forks("pay", link("12.50 USD"), "--x402", "--chain", EVM, home=up.home.path)
    assert (done.status, done.err) == (0, "")
    _, asset, address, signs, handed_in, *_, last = done.out.splitlines()
    assert asset == "  1  12.50 tUSD on Florin Devnet"
    assert address.startswith("address  0x")
    assert signs.startswith("eth_signTypedData_v4  lets the server send 12.50 tUSD to 0x")
    assert handed_in.startswith("handed in  status 20")
    assert re.match(r"succeeded  version \d  transaction 0x", last)


def test_key_from_a_file_pays_by_a_plain_transfer(up, link, pay, tmp_path):
    options = ["--send", "--chain", EVM, *keystore(tmp_path, bytes(Account.create().key))]
    created = link("12.50 USD")
    status, steps, err = pay(created, *options, "--yes", "--max", "12.49 USD")
    assert (status, steps[-1]["step"]) == (1, "address")
    assert "--max is 12.49 USD" in json.loads(err)["error"]["message"]
    status, steps, err = pay(created, *options)
    assert (status, steps[-1]["step"]) == (2, "fee")
    assert "use --yes" in json.loads(err)["error"]["message"]
    status, steps, _ = pay(created, *options, "--yes", "--max-fee", "0.000000001")
    assert (status, steps[-1]) == (1, {"step": "fee", "maxFee": str(10**9)})
    status, steps, err = pay(created, *options, "--yes", "--max", "12.50 USD")
    assert (status, err, steps[-1]["status"]["status"]) == (0, "", "succeeded")


def test_plain_transfer_that_is_impossible_is_reported(link, pay, tmp_path):
    def read_error(amount: str, *options: str, expected: int = 1) -> str:
        status, steps, err = pay(link(amount), "--send", *options)
        assert (status, "sign" in [step["step"] for step in steps]) == (expected, False), steps
        return json.loads(err)["error"]["message"]

    assert "too small for an address" in read_error("0.50 GBP")
    assert "needs data about the buyer" in read_error("99 USD", expected=6)
    assert "accepts no asset that" in read_error("5 USD", "--chain", SOLANA_DEVNET.chain_id)
    assert "0 options match 'tDOGE'" in read_error("5 USD", "--option", "tDOGE", expected=2)
    file = tmp_path / "data.json"
    file.write_text(json.dumps(DATA))
    assert "leave out --data" in read_error("5 USD", "--data", str(file), expected=2)


def test_people_read_every_step_of_a_plain_transfer(link, up, forks):
    done = forks("pay", link("12.50 EUR"), "--send", home=up.home.path)
    assert (done.status, done.err) == (0, "")
    _, asset, address, sends, fees, sent, *_, last = done.out.splitlines()
    assert asset == "  1  12.50 tEUR on Florin Devnet"
    assert address.startswith("address  0x")
    assert sends.startswith("eth_sendTransaction  sends 12.50 tEUR to 0x")
    assert fees == "fees  at most 0.01 of the native coin"
    assert sent.startswith("sent  transaction 0x")
    assert re.match(r"succeeded  version \d  transaction 0x", last)


def test_a_shell_that_has_read_demo_env_pays_too(up, link, pay):
    status, steps, err = pay(link("12.50 USD"), "--option", "1", **up.env)
    assert (status, err, steps[-1]["status"]["status"]) == (0, "", "succeeded")


async def test_account_with_code_that_cannot_sign_pays_by_transactions(up, link, pay, tmp_path):
    key = Account.create()
    async with aiohttp.ClientSession() as session:
        chain = ChainClient(session, up.env["FLORIN_EVM_RPC_URL"], DEVNET.token.address)
        wallet = EvmTestWallet(key=bytes(key.key))
        await chain.fund(wallet.address)
        await wallet.delegate(chain, NON_SIGNING_ADDRESS)
    options = keystore(tmp_path, bytes(key.key))
    status, steps, err = pay(link("12.50 USD"), *options, "--chain", EVM, "--yes")
    assert (status, err) == (0, "")
    assert [step["method"] for step in steps if step["step"] == "sign"] == [
        "eth_sendTransaction"
    ] * 2
    assert steps[-1]["status"]["status"] == "succeeded"


def keystore(folder: Path, secret: bytes) -> list[str]:
    """Return options that name a keystore and its password."""
    file, password = folder / "key.json", folder / "password"
    file.write_text(json.dumps(Account.encrypt(secret, PASSWORD, iterations=2)))
    file.chmod(0o600)
    password.write_text(PASSWORD + "\n")
    return ["--keystore", str(file), "--password-file", str(password)]


def test_keys_from_files_pay_only_with_yes(link, pay, tmp_path):
    options = keystore(tmp_path, bytes(Account.create().key))
    pair = tmp_path / "pair.json"
    pair.write_text(json.dumps([*bytes(Keypair())]))
    pair.chmod(0o600)
    created = link("12.50 USD")
    status, steps, err = pay(created, *options)
    assert status == 2
    assert "use --yes" in json.loads(err)["error"]["message"]
    # nothing was handed in
    assert {step["step"] for step in steps} == {"payment", "options", "sign"}
    status, steps, _ = pay(created, *options, "--yes")
    assert (status, steps[-1]["status"]["status"]) == (0, "succeeded")
    status, steps, _ = pay(
        link("12.50 USD"), "--keystore", str(pair), "--chain", SOLANA_DEVNET.chain_id, "--yes"
    )
    assert (status, steps[-1]["status"]["status"]) == (0, "succeeded")


def test_unusable_key_file_is_reported(link, pay, tmp_path):
    _, file, _, password = options = keystore(tmp_path, bytes(Account.create().key))
    created = link("12.50 USD")

    def read_error(*arguments: str) -> str:
        status, _, err = pay(created, *arguments)
        assert status == 1
        return json.loads(err)["error"]["message"]

    Path(password).write_text("wrong")
    assert "the password is wrong" in read_error(*options)
    Path(file).chmod(0o644)
    assert "other users can read" in read_error(*options)
    Path(file).chmod(0o600)
    for text in ("no json", "[1, 2]", '{"version": 3}', "{}"):
        Path(file).write_text(text)
        assert str(file) in read_error(*options)


def test_real_money_is_not_paid_by_new_keys(up, forks, pay):
    def run_command(*words: str, **changes: str) -> str:
        done = forks(*words, home=up.home.path, **changes)
        assert done.status == 0, done
        return done.out.strip()

    partner = run_command("partners", "create", "Live")
    merchant = run_command(
        *("merchants", "import", "live", "--live", f"--partner={partner}"),
        *("--name=Live", "--email=a@live.example"),
    )
    key = run_command("keys", "create", "partner", f"--partner={partner}", "--live")
    live = {"FLORIN_PARTNER_KEY": key, "FLORIN_MERCHANT_ID": merchant}
    link = run_command("payments", "create", "12.50 USD", **live)
    app = run_command("wallets", "register", "Purse", "--live")
    status, steps, err = pay(link, FLORIN_APP_ID=app)
    assert (status, [step["step"] for step in steps]) == (1, ["payment"])
    assert "--keystore FILE" in json.loads(err)["error"]["message"]
    # a wallet for test data does not even see it
    status, steps, err = pay(link)
    assert (status, steps, json.loads(err)["error"]["code"]) == (3, [], "payment_not_found")


def test_buyer_data_is_read_from_a_file(link, pay, tmp_path):
    file = tmp_path / "data.json"
    created = link("99 USD")
    status, _, err = pay(created)
    assert status == 2
    assert "fullName" in json.loads(err)["error"]["message"]
    for text in ("[]", "no json"):
        file.write_text(text)
        assert pay(created, "--data", str(file))[0] == 2
    file.write_text(json.dumps(DATA))
    status, steps, _ = pay(created, "--data", str(file))
    assert (status, steps[-1]["status"]["status"]) == (0, "succeeded")


def test_missing_option_and_ended_payment_have_their_own_exit_status(link, pay, up, forks):
    created = link("12.50 USD")
    for option in ("4", "0", "tDOGE", ETHER):
        assert pay(created, "--option", option)[0] == 2
    assert pay(created, "--chain", "eip155:1")[0] == 1
    assert pay("pay_unknown")[0] == 3
    payment = created.rpartition("/")[2]
    assert forks("payments", "cancel", payment, "--yes", home=up.home.path).status == 0
    assert pay(created)[0] == 6


def test_key_from_a_file_is_accepted_and_key_on_the_command_line_gets_a_hint(up, forks, tmp_path):
    key = up.env["FLORIN_PARTNER_KEY"]
    file = tmp_path / "key"
    file.write_text(key + "\n")
    here = {"FLORIN_MERCHANT_ID": up.env["FLORIN_MERCHANT_ID"]}
    listing = ("payments", "list", "--server", up.env["FLORIN_GRPC_TARGET"], "--api-key")
    done = forks(*listing, f"@{file}", home=tmp_path / "none", **here)
    assert (done.status, done.err) == (0, "")
    done = forks(*listing, key, home=tmp_path / "none", **here)
    assert done.status == 0
    assert "--api-key @FILE" in done.err
    assert key not in done.err
    done = forks(*listing, f"@{tmp_path}/missing", home=tmp_path / "none", **here)
    assert (done.status, "cannot be read" in done.err) == (2, True)


def test_people_read_every_step(link, up, forks):
    done = forks("pay", link("12.50 EUR"), home=up.home.path)
    assert (done.status, done.err) == (0, "")
    asks, option, approves, signs, fees, sent, *_, last = done.out.splitlines()
    assert asks == "Corner Café asks for 12.50 EUR, test data"
    assert option.startswith("  1  12.50 tEUR on Florin Devnet, about ")
    assert approves.startswith(f"eth_sendTransaction  lets {DEVNET.permit2} take 12.50 tEUR, ")
    assert signs.startswith(f"eth_signTypedData_v4  lets {DEVNET.settler} take 12.50 tEUR ")
    assert fees == "fees  at most 0.01 of the native coin"
    assert sent.startswith("sent  transaction 0x")
    assert re.match(r"succeeded  version \d  transaction 0x", last)
