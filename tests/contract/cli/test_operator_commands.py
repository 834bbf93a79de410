"""The operator's commands, on a running Florin and on a stopped one."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest
import uvloop
from florin_server.accounts.store import destinations, merchants
from florin_server.domain.payments.payment import Destination, Merchant
from florin_server.domain.payouts.deposit_claims import DepositClaim, DepositClaimState
from florin_server.domain.payouts.held_money import HeldMoney
from florin_server.domain.settlement.chain_txs import LedgerPosting
from florin_server.money.ledger.store import ledger
from florin_server.money.payouts.store import deposit_claims, held_money

from tests.support.api import RestApi
from tests.support.command import CommandForks, CommandResult, get_refusal
from tests.support.deposit_claims import make_held_money
from tests.support.service import run_service
from tests.support.service_harness import ORDER
from tests.support.store_factories import create_payment, open_engine_store
from tests.support.wallet import EvmTestWallet

pytestmark = pytest.mark.long

MINUTE = r"\d{4}-\d\d-\d\dT\d\d:\d\dZ"
STABLE, PREVIEW = "2026-02-18", "2026-02-19.preview"


@pytest.fixture(params=["up", "stopped"])
def home(request):
    """Return the state of an installation that runs, or has run."""
    if request.param == "up":
        return request.getfixturevalue("up").home.path
    return request.getfixturevalue("stopped")


def asking(forks: CommandForks, home: Path) -> Callable[..., list[str]]:
    """Return a function that runs commands, asserts success and returns their lines."""

    def ask(*command: str) -> list[str]:
        done = forks(*command, home=home)
        assert done.status == 0, done
        return done.out.splitlines()

    return ask


@pytest.fixture
def ask(forks, home):
    return asking(forks, home)


@pytest.fixture
def ask_up(forks, up):
    return asking(forks, up.home.path)


def rows(lines: list[str]) -> dict[str, list[str]]:
    """Return a table's rows by their first column; at least two blanks separate columns."""
    return {first: rest for first, *rest in (re.split(r" {2,}", line) for line in lines)}


def test_partners_are_created_listed_suspended_and_resumed(ask):
    # nothing in a name is taken for markup
    name = "Tea [bold]& Co :100: 茶"
    (partner_id,) = ask("partners", "create", name)
    assert re.fullmatch(r"prtn_\w{17}", partner_id)
    for command, status in (("suspend", "suspended"), ("resume", "active")):
        assert ask("partners", command, partner_id) == [f"{partner_id} is {status}."]
        listed = rows(ask("partners", "list"))
        # newest first, whole ids, below the head
        assert list(listed)[:2] == ["Partner id", partner_id]
        assert listed[partner_id][:2] == [status, STABLE]
        assert re.fullmatch(MINUTE, listed[partner_id][2])
        assert listed[partner_id][3] == name


def test_wallets_are_registered_listed_and_revoked(ask):
    (plain,) = ask("wallets", "register", "Purse")
    icon = "--icon-url=https://purse.example/icon.png"
    (other,) = ask("wallets", "register", "Vault", icon, "--live")
    assert all(re.fullmatch(r"app_\w{17}", item) for item in (plain, other))
    for _ in range(2):
        assert ask("wallets", "revoke", plain) == [f"{plain} is revoked."]
    listed = rows(ask("wallets", "list"))
    mode, pin, _, revoked, name = listed[plain]
    assert (mode, pin, name) == ("test", STABLE, "Purse")
    assert re.fullmatch(MINUTE, revoked)
    mode, pin, _, revoked, name = listed[other]
    assert (mode, pin, revoked, name) == ("live", STABLE, "-", "Vault")


def test_merchants_are_imported_suspended_and_assigned_a_bank_account(ask):
    (partner_id,) = ask("partners", "create", "Tea & Co")
    who = (f"--partner={partner_id}", "--name=Tea House", "--email=tea@house.example")
    number = partner_id.removeprefix("prtn_")
    for merchant_id, mode in ((f"tea-{number}", ()), (f"live-{number}", ("--live",))):
        assert ask("merchants", "import", merchant_id, *who, *mode) == [merchant_id]
        for status in ("inactive", "suspended", "active"):
            answer = ask("merchants", "status", merchant_id, status)
            assert answer == [f"{merchant_id} is {status}."]
        (settlement,) = ask("merchants", "bank", merchant_id, "--type=iban", "--status=pending")
        assert re.fullmatch(r"fiat_\w{17}", settlement)


def test_pins_are_listed_and_move_forward(ask, forks, home):
    (partner_id,) = ask("partners", "create", "Tea & Co")
    (app_id,) = ask("wallets", "register", "Purse")
    (gone,) = ask("wallets", "register", "Lost")
    ask("wallets", "revoke", gone)
    (secret,) = ask("keys", "create", "wallet")
    key_id = secret.split("_")[3]
    for option, account in (("partner", partner_id), ("wallet", app_id), ("key", key_id)):
        assert [STABLE in line for line in ask("versions", "list") if account in line] == [True]
        for _ in range(2):
            answer = ask("versions", "pin", PREVIEW, f"--{option}={account}")
            assert answer == [f"{account} is pinned to {PREVIEW}."]
        done = forks("versions", "pin", STABLE, f"--{option}={account}", home=home)
        assert done.status == 6
        assert get_refusal(done) == (
            "Not done: Version is older than the account's pin (api_version_downgrade)"
        )
    published, pins = "\n".join(ask("versions", "list")).split("\n\n")
    assert rows(published.splitlines()[1:]) == {STABLE: ["stable"], PREVIEW: ["preview"]}
    _, *pinned = [re.split(r" {2,}", line) for line in pins.splitlines()]
    assert ["partner", partner_id, "-", PREVIEW, "Tea & Co"] in pinned
    assert ["wallet", app_id, "test", PREVIEW, "Purse"] in pinned
    assert ["key", key_id, "test", PREVIEW, "-"] in pinned
    assert gone not in pins
    # partner keys have no pin of their own
    assert {key for kind, key, *_ in pinned if kind == "key"} <= set(rows(ask("keys", "list")))


IMPORT = ["merchants", "import", "tea", "--name=Tea", "--email=tea@house.example"]
REFUSED = [
    (["partners", "create", ""], 1, "name: is required"),
    (["partners", "create", "x" * 257], 1, "name: must have at most 256 characters"),
    (["partners", "suspend", "prtn_1"], 3, "Partner not found"),
    (["partners", "resume", "prtn_1"], 3, "Partner not found"),
    (["wallets", "register", "Purse", "--icon-url=http://p.example"], 1, "iconUrl: must be"),
    (["wallets", "revoke", "app_1"], 3, "Wallet not found"),
    ([*IMPORT, "--partner=prtn_1"], 3, "Partner not found"),
    (["merchants", "import", "a/b", *IMPORT[3:], "--partner=p"], 1, "merchantId: has the wrong"),
    (["merchants", "status", "mrch_1", "active"], 3, "Merchant not found"),
    (
        ["merchants", "status", "mrch_1", "rich"],
        2,
        "unknown status 'rich': use active, inactive or suspended",
    ),
    (["merchants", "bank", "mrch_1", "--type=iban"], 3, "Merchant not found"),
    (["versions", "pin", "latest", "--partner=prtn_1"], 1, "Invalid api version"),
    (["versions", "pin", "2026-02-17", "--partner=prtn_1"], 1, "Unknown api version"),
    (["versions", "pin", STABLE, "--partner=prtn_1"], 3, "Partner not found"),
    (["versions", "pin", STABLE], 2, "name one account"),
    (["versions", "pin", STABLE, "--partner=a", "--key=b"], 2, "name one account"),
]


def test_invalid_command_is_refused_in_a_sentence(forks, home):
    for command, status, why in REFUSED:
        done = forks(*command, home=home)
        assert (done.status, why in get_refusal(done)) == (status, True), (command, done)


def test_an_executor_is_listed_paused_and_resumed(ask_up, up, forks):
    listed = sorted(set(rows(ask_up("executors", "list"))) - {"Executor id"})
    # a relayer and a treasury each
    executor, _, *on_solana = listed
    assert all(re.fullmatch(r"eip155:31337:0x[0-9a-fA-F]{40}", text) for text in listed[:2])
    assert all(
        re.fullmatch(r"solana:[1-9A-Za-z]{32}:[1-9A-Za-z]{32,44}", text) for text in on_solana
    )
    assert len(on_solana) == 2
    for _ in range(2):
        assert ask_up("executors", "pause", executor) == [f"{executor} is paused."]
    state, since, open_transactions, coin = rows(ask_up("executors", "list"))[executor]
    assert (state, open_transactions) == ("paused", "0")
    assert coin.endswith("no transactions yet")
    assert re.fullmatch(MINUTE, since)
    doctor = forks("doctor", home=up.home.path)
    assert doctor.status == 1
    paused = (
        r"(settlement|payouts)_paused since [\d-]+ [\d:]+ UTC: (payouts: )?paused by the operator"
    )
    assert re.search(rf"^✗ eip155:31337: {paused}$", doctor.out, re.MULTILINE)
    assert ask_up("executors", "resume", executor) == [f"{executor} is running."]
    assert rows(ask_up("executors", "list"))[executor] == ["running", "-", "0", coin]


def test_unknown_executor_is_reported(forks, up):
    for command in ("pause", "resume"):
        done = forks("executors", command, "eip155:1:0x1", home=up.home.path)
        assert (done.status, get_refusal(done)) == (
            3,
            "Not done: Executor not found (executor_not_found)",
        )


def test_executors_need_a_florin_that_runs(forks, stopped):
    for command in (["list"], ["pause", "eip155:1:0x1"], ["resume", "eip155:1:0x1"]):
        done = forks("executors", *command, home=stopped)
        why = f"no Florin runs with its state in {stopped}; start one: florin up"
        assert done == CommandResult(5, "", f"Not done: {why}\n")


async def offered(env: dict[str, str]) -> tuple[str, str]:
    """Return a payment and an account that was offered to pay it."""
    async with aiohttp.ClientSession() as session:
        api = RestApi(session, env["FLORIN_BASE_URL"], env)
        payment_id, wallet = (await api.create(ORDER))["paymentId"], EvmTestWallet()
        await api.options(payment_id, [wallet.account])
        return payment_id, wallet.account


@pytest.fixture(params=["up", "stopped"])
def customer(request, tmp_path):
    """Return an installation, a payment, and an account that was offered to pay it."""

    async def once() -> tuple[str, str]:
        async with run_service(tmp_path / "home") as service:
            return await offered(service.home.read_demo_env())

    if request.param == "up":
        up = request.getfixturevalue("up")
        return up.home.path, *uvloop.run(offered(up.env))
    return tmp_path / "home", *uvloop.run(once())


def test_customer_data_is_exported_and_erased(forks, customer):
    home, payment_id, account = customer
    ask = asking(forks, home)
    shown = json.loads("\n".join(ask("customers", "export", account)))
    (payment,) = shown["payments"]
    assert shown["account"] == account.lower()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", payment.pop("createdAt"))
    assert payment == {
        "paymentId": payment_id,
        "status": "requires_action",
        "payer": False,
        "walletName": None,
        "txId": None,
        "archived": False,
    }
    assert shown["archiveLeftOut"] is False
    assert ask("customers", "erase", account) == [
        "Erased: 1 offers, 0 wallet names, 0 sets of data about the buyer, 0 claims.",
        "Kept: 0 payments, because their money moved.",
    ]
    for command in ("export", "erase"):
        done = forks("customers", command, account, home=home)
        assert (done.status, get_refusal(done)) == (
            3,
            "Not done: Customer not found (customer_not_found)",
        )
        done = forks("customers", command, "unknown", home=home)
        assert done.status == 1
        assert get_refusal(done).startswith("Not done: Validation error: account: ")
        assert get_refusal(done).endswith(" (params_validation)")


def test_payouts_are_created_listed_and_refused(forks, stopped):
    ask = asking(forks, stopped)
    asset, place = f"eip155:1/erc20:0x{'aa' * 20}", f"eip155:1:0x{'bb' * 20}"

    merchant_id = "mrch_owed"

    async def owe() -> None:
        tea = Merchant(merchant_id, "prtn_1", "Tea", "t@tea.example", None, "active", True, 0)
        came = LedgerPosting(f"wallet:{place}", f"merchant:{merchant_id}", asset, 100)
        where = Destination("crypto_1", merchant_id, asset, place)
        async with open_engine_store("sqlite", stopped) as store:
            await store.write(merchants.put_merchant(tea))
            await store.write(destinations.put_destination(where))
            await store.write(ledger.post("settle:1", "settle", None, None, (came,), 0))

    uvloop.run(owe())
    head, *none = ask("payouts", "list")
    assert (head.split("  ")[0], none) == ("Payout id", [])
    create = ("payouts", "create", merchant_id, asset)
    # without a terminal and without --yes, nothing is sent
    done = forks(*create, "--amount=30", home=stopped)
    assert done.status == 2
    assert "Sends        30 minor units" in done.err
    assert "Owed         100 minor units" in done.err
    assert f"Receiver     {place}" in done.err
    assert "Network fee  on top, paid by" in done.err
    assert list(rows(ask("payouts", "list"))) == ["Payout id"]
    done = forks(*create, "--amount=101", "--yes", home=stopped)
    assert (done.status, "at most 100 minor units can be paid" in get_refusal(done)) == (1, True)
    # no chain here knows its symbol
    done = forks(*create, "--amount=1.5 USDC", "--yes", home=stopped)
    assert (done.status, "write minor units" in get_refusal(done)) == (2, True)
    (part,) = ask(*create, "--amount=30", "--yes")
    (rest,) = ask(*create, "--yes")
    listed = rows(ask("payouts", "list"))
    assert re.fullmatch(r"pout_\w{17}", part)
    assert [listed[text][0:2] for text in (part, rest)] == [["balance", "waiting"]] * 2
    assert [listed[text][3:] for text in (part, rest)] == [
        ["30", asset, place, "-"],
        ["70", asset, place, "-"],
    ]
    done = forks(*create, "--yes", home=stopped)
    assert done.status == 1
    assert "at most 0 minor units can be paid to the merchant now" in get_refusal(done)
    assert ask("payouts", "refuse", rest) == [f"{rest} is refused."]
    assert list(rows(ask("payouts", "list")))[1:] == [part]
    assert rows(ask("payouts", "list", "--all"))[rest][1] == "refused"
    assert ask(*create, "--amount=70", "--yes") != [rest]
    for amount in ("0", "-1", "1.5", "many"):
        done = forks(*create, f"--amount={amount}", "--yes", home=stopped)
        assert done.status == 2
    done = forks("payouts", "refuse", "pout_unknown", home=stopped)
    assert get_refusal(done) == "Not done: Payout pout_unknown not found (invalid_params)"


def test_ledger_check_of_a_stopped_florin_proves_the_books_only(forks, stopped):
    done = forks("ledger", "check", home=stopped)
    assert done.status == 0
    assert "eip155:31337 was not compared: it is not running here" in done.err
    assert "✓ the ledger balances" in done.out
    planted = "('settle:x', 0, 'wallet:w', 'external:e', 'a', '5')"
    with closing(sqlite3.connect(stopped / "florin.db")) as database, database:
        database.execute(f"INSERT INTO ledger_transfer VALUES {planted}")
    done = forks("ledger", "check", home=stopped)
    assert done.status == 1
    assert "✗ transfers of settle:x have no journal" in done.out


def test_the_books_are_compared_and_listed_while_florin_runs(ask_up, forks, up):
    lines = ask_up("ledger", "check")
    assert lines[-1] == "✓ the ledger balances"
    wallets = [re.split(r" {2,}", line) for line in lines[1:-1]]
    assert {words[0] for words in wallets} == {"exact"}
    assert {words[3] for words in wallets} == {"+0"}
    accounts = {line.rpartition(" ")[2] for line in ask_up("ledger", "balances")}
    assert "external:opening" in accounts
    assert len(ask_up("ledger", "entries", "pay_unknown")) == 1
    account, asset = wallets[0][5], wallets[0][4]
    done = forks("ledger", "book", account, asset, "--note=nothing", home=up.home.path)
    assert (done.status, get_refusal(done)) == (
        6,
        "Not done: The ledger agrees with the chain: there is nothing to adjust (invalid_state)",
    )


def test_open_claims_are_listed_with_their_held_payments(forks, stopped):
    address = f"eip155:31337:0x{'dd' * 20}"

    async def add_claims() -> None:
        async with open_engine_store("sqlite", stopped) as store:
            payment = await create_payment(store)
            money = make_held_money(payment.id, address, "held_claimed")
            await store.write(held_money.put(money))
            for number, state in enumerate((DepositClaimState.OPEN, DepositClaimState.REJECTED)):
                account = f"eip155:31337:0x{number}{'c' * 39}"
                claim = DepositClaim(
                    id=f"clm_{number}",
                    held_id=money.id,
                    payment_id=payment.id,
                    asset=money.asset,
                    value=money.held,
                    account=account,
                    message="Withdrawal [b]8842115",
                    created_at_us=1_800_000_000_000_000,
                    state=state,
                )
                await store.write(deposit_claims.create(claim))

    uvloop.run(add_claims())
    lines = asking(forks, stopped)("payments", "held")
    (line,) = [line for line in lines if "clm_" in line]
    assert re.split(r" {2,}", line) == [
        "held_claimed",
        "clm_0",
        "2027-01-15T08:00Z",
        f"eip155:31337:0x0{'c' * 39}",
        "Withdrawal [b]8842115",
    ]


def test_held_payments_are_listed_and_decided(forks, stopped):
    asset, payer = f"eip155:31337/erc20:0x{'aa' * 20}", f"eip155:31337:0x{'bb' * 20}"
    late = HeldMoney(
        id="held_1",
        payment_id="",
        chain_id="eip155:31337",
        asset=asset,
        payer=payer,
        value=100,
        held=3,
        fee=3,
        settled_value=97,
        tx_hash="0x" + "cc" * 32,
        event="one",
        late=True,
        why="blocked by screening list sdn",
        since_us=1_800_000_000_000_000,
    )

    async def came() -> str:
        async with open_engine_store("sqlite", stopped) as store:
            of = await create_payment(store)
            await store.write(held_money.put(replace(late, payment_id=of.id)))
            return of.id

    payment_id = uvloop.run(came())
    ask = asking(forks, stopped)
    listed = rows(ask("payments", "held"))
    assert listed["held_1"] == [
        payment_id,
        "held, late",
        "2027-01-15T08:00Z",
        "100",
        "3",
        asset,
        payer,
        "blocked by screening list sdn",
    ]
    problem = (
        "payments held because their payers are blocked: 1; list them with `florin payments held`"
    )
    assert f"eip155:31337: payments_held: {problem}" in forks("doctor", home=stopped).out
    done = forks("payments", "keep", "held_1", "--note=so", home=stopped)
    assert done.status == 5
    assert "no Florin runs" in get_refusal(done)
    done = forks("payments", "keep", "held_1", home=stopped)
    assert done.status == 2

    with forks.start_lasting("up", home=stopped):
        done = forks("payments", "release", "held_1", "--note=no", home=stopped)
        assert (done.status, get_refusal(done)) == (
            6,
            (
                "Not done: The money arrived late and pays for nothing: "
                "return it or keep it (invalid_state)"
            ),
        )
        stored = ask("payments", "keep", "held_1", "--note=the authority asks for it")
        assert stored == ["held_1 is kept."]
        listed = rows(ask("payments", "held"))
        assert (listed["held_1"][1], listed["held_1"][-1]) == (
            "kept, late",
            "the authority asks for it",
        )
        done = forks("payments", "return", "held_1", "--note=free", home=stopped)
        assert (done.status, done.out) == (0, "held_1 is returned.\n")
        assert re.search(r"Payout pout_\w{17} sends 3 minor units to " + payer, done.err)
        assert list(rows(ask("payments", "held"))) == ["Held id"]
        assert rows(ask("payments", "held", "--all"))["held_1"][1] == "returned, late"
