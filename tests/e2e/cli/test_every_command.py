"""Every command on a running Florin: it works, and its --json output is JSON."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from eth_account import Account
from florin_sandbox.devnet.genesis import DEVNET
from florin_server.cli.exits import ExitStatus

from tests.support.command_environment import CommandEnvironment, parse_documents
from tests.support.commands import list_commands

pytestmark = pytest.mark.slow

OTHER_ACCOUNT = "eip155:31337:0x" + "77" * 20
PREVIEW = "2026-02-19.preview"
# their output is for a shell, or comes from another program; `report` has --format json
PLAIN = {"lab", "completion", "report"}
LASTING = {"up", "serve", "worker", "gateway", "listen"}
COMMANDS = set(list_commands())


@pytest.fixture(scope="module")
def stage(tmp_path_factory, forks) -> Iterator[CommandEnvironment]:
    folder = tmp_path_factory.mktemp("every")
    with forks.start_lasting("up", home=folder / "home") as up:
        yield CommandEnvironment(up, forks, folder)
        up.send_signal(signal.SIGTERM)
        assert up.wait_ended().status == 0


# each command, with the member that its answer must have
Try = Callable[[CommandEnvironment], None]
TRIES: dict[str, Try] = {}


def tries(*commands: str) -> Callable[[Try], Try]:
    def tried(work: Try) -> Try:
        for command in commands:
            TRIES[command] = work
        return work

    return tried


@tries("partners create", "partners list", "partners suspend", "partners resume")
def partners(stage: CommandEnvironment) -> None:
    (created,) = stage.run_json("partners", "create", "Tea & Co")
    assert created["status"] == "active"
    assert stage.run_json("partners", "suspend", created["id"])[0]["status"] == "suspended"
    assert stage.run_json("partners", "resume", created["id"])[0]["status"] == "active"
    (result,) = stage.run_json("partners", "list")
    assert created["id"] in {partner["id"] for partner in result["partners"]}
    (refused,) = stage.run_json("partners", "suspend", "prtn_1", status=ExitStatus.NOT_FOUND)
    assert refused["error"]["code"] == "partner_not_found"


@tries("keys create", "keys list", "keys set", "keys revoke")
def keys(stage: CommandEnvironment) -> None:
    words = ("keys", "create", "wallet", "--name=Purse", "--scope", "read")
    (created,) = stage.run_json(*words)
    key_id = created["key"]["keyId"]
    assert created["secret"].startswith("fl_test_wk_")
    assert (created["key"]["name"], created["key"]["scopes"]) == ("Purse", ["read"])
    (changed,) = stage.run_json("keys", "set", key_id, "--name=Till", "--scope=read,create")
    assert (changed["key"]["name"], changed["key"]["scopes"]) == ("Till", ["create", "read"])
    assert stage.run("keys", "set", key_id).status == ExitStatus.USAGE_ERROR
    assert stage.run("keys", "set", key_id, "--scope=all").status == ExitStatus.USAGE_ERROR
    listed = stage.run("keys", "list").out
    assert "Till" in listed
    assert created["secret"] not in listed
    assert created["secret"] not in json.dumps(stage.run_json("keys", "list"))
    assert stage.run_json("keys", "revoke", key_id)[0]["key"]["revokedAt"]
    (refused,) = stage.run_json("keys", "set", key_id, "--name=x", status=ExitStatus.WRONG_STATE)
    assert refused["error"]["code"] == "invalid_state"


@tries("audit list")
def audit_log(stage: CommandEnvironment) -> None:
    (created,) = stage.run_json("partners", "create", "Audit & Co")
    (listed,) = stage.run_json("audit", "list", "--limit", "50")
    assert ("partner.created", created["id"]) in {
        (entry["action"], entry["objectId"]) for entry in listed["entries"]
    }


@tries("wallets register", "wallets list", "wallets revoke")
def wallets(stage: CommandEnvironment) -> None:
    (created,) = stage.run_json("wallets", "register", "Purse")
    assert created["appId"] in json.dumps(stage.run_json("wallets", "list"))
    assert stage.run_json("wallets", "revoke", created["appId"])[0]["revokedAt"]


@tries("merchants list", "merchants show", "merchants destinations")
def merchants(stage: CommandEnvironment) -> None:
    own = stage.env["FLORIN_MERCHANT_ID"]
    (listed,) = stage.run_json("merchants", "list")
    assert own in {merchant["id"] for merchant in listed["merchants"]}
    assert stage.run_json("merchants", "show")[0]["id"] == own
    (before,) = stage.run_json("merchants", "destinations", own)
    asset = f"eip155:31337/erc20:{DEVNET.euro.address}"
    assert asset not in {item["asset"] for item in before["crypto"]}
    words = ("merchants", "destinations", own, "--set", f"{asset}={OTHER_ACCOUNT}")
    (refused,) = stage.run_json(*words, status=ExitStatus.USAGE_ERROR)
    assert refused["error"]["exit"] == ExitStatus.USAGE_ERROR
    (after,) = stage.run_json(*words, "--yes")
    assert OTHER_ACCOUNT in {
        item["destination"] for item in after["crypto"] if item["asset"] == asset
    }
    (again,) = stage.run_json("merchants", "destinations", own, "--remove", asset, "--yes")
    assert again == before


@tries("merchants import", "merchants status", "merchants support", "merchants bank")
def merchants_of_the_operator(stage: CommandEnvironment) -> None:
    (partner,) = stage.run_json("partners", "create", "Of merchants")
    who = (f"--partner={partner['id']}", "--name=Tea", "--email=tea@house.example")
    support = ("--support-email=help@tea.example", "--support-url=https://tea.example/help")
    (created,) = stage.run_json("merchants", "import", "tea", *who, *support)
    assert created["merchant"]["id"] == "tea"
    assert created["merchant"]["supportUrl"] == "https://tea.example/help"
    (changed,) = stage.run_json("merchants", "support", "tea", "--support-url=")
    assert changed["merchant"]["supportEmail"] == "help@tea.example"
    assert "supportUrl" not in changed["merchant"]
    assert stage.run_json("merchants", "support", "tea", status=ExitStatus.USAGE_ERROR)
    (changed,) = stage.run_json("merchants", "status", "tea", "inactive")
    assert changed["merchant"]["status"] == "inactive"
    assert stage.run_json("merchants", "bank", "tea", "--type=iban")[0]["bankType"] == "iban"


@tries("versions list", "versions pin")
def versions(stage: CommandEnvironment) -> None:
    (partner,) = stage.run_json("partners", "create", "Pinned")
    words = ("versions", "pin", PREVIEW, f"--partner={partner['id']}")
    assert stage.run_json(*words)[0]["version"] == PREVIEW
    (result,) = stage.run_json("versions", "list")
    assert {"id", "version", "account"} <= result["pins"][0].keys()
    assert PREVIEW in {version["version"] for version in result["versions"]}


@tries("customers export", "customers erase")
def customers(stage: CommandEnvironment) -> None:
    payment = stage.paid()
    payer = stage.run_json("payments", "show", payment)[0]["buyer"]["accountCaip10"]
    (stored,) = stage.run_json("customers", "export", payer)
    assert [each_payment["paymentId"] for each_payment in stored["payments"]] == [payment]
    assert stage.run_json("customers", "erase", payer)[0]["paymentsKept"] == 1


@tries("addresses open", "addresses list")
@tries("payments create", "payments list", "payments show", "payments cancel")
def payments(stage: CommandEnvironment) -> None:
    order = ("--description", "Breakfast", "--metadata", "order=1001", "--metadata", "eq=a=b")
    lines = ("--line", "2 x Flat white=9.00", "--line", "A=B tea=3.50")
    payment = stage.payment("--reference", "order-9", "--expires-in", "30m", *order, *lines)
    (shown,) = stage.run_json("payments", "show", payment)
    assert (shown["referenceId"], shown["amount"]["value"]) == ("order-9", "1250")
    assert shown["description"] == "Breakfast"
    assert shown["metadata"] == {"order": "1001", "eq": "a=b"}
    assert shown["lines"] == [
        {"name": "Flat white", "quantity": 2, "amount": "900"},
        {"name": "A=B tea", "quantity": 1, "amount": "350"},
    ]
    for wrong in ("--line=Tea", "--line==9.00", "--line=Tea=9.001", "--metadata=x"):
        refused = ("payments", "create", "12.50 USD", wrong)
        assert stage.run_json(*refused, status=ExitStatus.USAGE_ERROR)
    (listed,) = stage.run_json("payments", "list", "--reference", "order-9")
    assert [each_payment["paymentId"] for each_payment in listed["payments"]] == [payment]
    assert listed["more"] is False
    stage.payment()
    (first,) = stage.run_json("payments", "list", "--limit", "1", "--status", "requires_action")
    assert (len(first["payments"]), first["more"]) == (1, True)
    assert stage.run_json("addresses", "open", payment)[0]["addresses"][0]["address"]
    assert stage.run_json("payments", "cancel", payment, status=ExitStatus.USAGE_ERROR)
    (done,) = stage.run_json("payments", "cancel", payment, "--yes")
    assert done["status"] == "cancelled"
    assert stage.run_json("addresses", "list", payment)[0]["addresses"][0]["missing"] == "12500000"
    # repeating the command gives the same result
    assert stage.run_json("payments", "cancel", payment, "--yes") == [done]
    assert stage.run_json("payments", "show", "pay_1", status=ExitStatus.NOT_FOUND)


@tries("payments tail", "payments refund", "pay")
def payments_that_are_paid(stage: CommandEnvironment) -> None:
    payment = stage.paid()
    (last,) = stage.run_json("payments", "tail", payment)
    assert (last["status"], last["version"]) == ("succeeded", 2)
    # a caller that has the last version gets no updates, only the exit status
    assert stage.run_json("payments", "tail", payment, "--after-version", "2") == []
    by_program = stage.run_json("pay", stage.payment(), "--x402")
    assert by_program[-1]["status"]["status"] == "succeeded"
    updates = stage.run_json("payments", "refund", payment, "--yes", "--wait")
    assert updates[-1]["refund"]["status"] == "succeeded"
    assert stage.run_json("payments", "refund", payment, "--yes")[0]["refundId"]
    parts_of_a_payment(stage)
    cancelled = stage.payment()
    stage.run_json("payments", "cancel", cancelled, "--yes")
    assert stage.run_json("payments", "tail", cancelled, status=ExitStatus.UNPAID)[-1]["status"]
    (refused,) = stage.run_json(
        "payments", "refund", cancelled, "--yes", status=ExitStatus.WRONG_STATE
    )
    assert refused["error"]["code"] == "payment_not_succeeded"
    assert stage.run_json("payments", "tail", "--after-version=1", status=ExitStatus.USAGE_ERROR)


def parts_of_a_payment(stage: CommandEnvironment) -> None:
    payment = stage.paid()
    refund = ("payments", "refund", payment, "--yes")
    updates = stage.run_json(*refund, "--amount=5.00 USD", "--reason=a broken cup", "--wait")
    assert updates[-1]["refund"]["status"] == "succeeded"
    assert updates[-1]["refund"]["paymentAmount"]["value"] == "500"
    # a full refund is no longer possible, nor more than the remaining amount
    for words in (refund, (*refund, "--amount=7.51 USD")):
        (refused,) = stage.run_json(*words, status=ExitStatus.WRONG_STATE)
        assert refused["error"]["code"] == "already_refunded"
        assert refused["error"]["details"]["refundable"] == "7500000"
    stage.run_json(*refund, "--amount=7.5 tUSD", "--wait")
    (shown,) = stage.run_json("payments", "show", payment)
    assert [each_refund["status"] for each_refund in shown["refunds"]] == ["succeeded"] * 2
    assert [each_refund.get("reason") for each_refund in shown["refunds"]] == ["a broken cup", None]
    assert shown["refunded"]["refundable"]["value"] == "0"
    text = stage.run("payments", "show", payment).out
    assert "5.00" in text
    assert "7.50" in text


@tries("payments held", "payments release", "payments return", "payments keep")
def held(stage: CommandEnvironment) -> None:
    assert stage.run_json("payments", "held")[0]["heldPayments"] == []
    for verdict in ("release", "return", "keep"):
        words = ("payments", verdict, "held_1", "--note=so")
        (refused,) = stage.run_json(*words, status=ExitStatus.REFUSED)
        assert refused["error"]["code"] == "invalid_params"


@tries("payments recover", "addresses sweep")
def recover(stage: CommandEnvironment) -> None:
    chain = "eip155:31337"
    words = ("payments", "recover", "pay_1", chain, f"{chain}/slip44:60")
    (refused,) = stage.run_json(*words, status=ExitStatus.REFUSED)
    assert refused["error"]["code"] == "invalid_params"
    words = ("payments", "recover", "pay_1", "eip155:1", "eip155:1/slip44:60")
    (refused,) = stage.run_json(*words, status=ExitStatus.REFUSED)
    assert "no addresses of payments" in refused["error"]["message"]
    assert stage.run_json("addresses", "sweep", chain, "--all")[0]["items"] == []
    words = ("addresses", "sweep", chain, "0x" + "77" * 20)
    assert "holds no money" in str(stage.run_json(*words, status=ExitStatus.REFUSED))


@tries("quarantine list", "quarantine retry", "quarantine resolve")
def quarantine(stage: CommandEnvironment) -> None:
    assert stage.run_json("quarantine", "list", "--all")[0]["items"] == []
    assert stage.run_json("quarantine", "retry", "--all")[0]["items"] == []
    assert stage.run_json("quarantine", "retry", status=ExitStatus.USAGE_ERROR)
    for words in (("retry", "qitm_1"), ("resolve", "qitm_1", "--note=so")):
        refused = stage.run_json("quarantine", *words, status=ExitStatus.REFUSED)
        assert refused[0]["error"]["code"] == "invalid_params"


@tries("payouts list", "payouts create", "payouts refuse", "payouts resolve")
def payouts(stage: CommandEnvironment) -> None:
    assert isinstance(stage.run_json("payouts", "list", "--all")[0]["payouts"], list)
    own, asset = stage.env["FLORIN_MERCHANT_ID"], stage.env["FLORIN_EVM_ASSET"]
    for words in (
        ("create", own, asset, "--yes"),
        ("refuse", "payout_1"),
        ("resolve", "payout_1", "--paid"),
    ):
        done = stage.run("payouts", *words, "--json")
        assert done.status in {ExitStatus.REFUSED, ExitStatus.WRONG_STATE}
        assert parse_documents(done.err)[0]["error"]["code"]


@tries("ledger check", "ledger book", "ledger balances", "ledger entries")
def ledger(stage: CommandEnvironment) -> None:
    payment = stage.paid()
    (checked,) = stage.run_json("ledger", "check")
    assert (checked["wrong"], checked["problems"]) == ([], [])
    assert stage.run_json("ledger", "entries", payment)[0]["entries"]
    assert stage.run_json("ledger", "balances")[0]["balances"]
    wallet = checked["wallets"][0]
    words = ("ledger", "book", wallet["account"], wallet["asset"], "--note=nothing")
    (refused,) = stage.run_json(*words, status=ExitStatus.WRONG_STATE)
    assert refused["error"]["code"] == "invalid_state"


@tries("sanctions import", "sanctions list", "sanctions check", "sanctions remove")
def sanctions(stage: CommandEnvironment) -> None:
    file = stage.folder / "list.txt"
    file.write_text("0x" + "88" * 20 + "\n")
    (done,) = stage.run_json(
        "sanctions", "import", str(file), "--name=own", "--published=2026-01-01"
    )
    assert (done["list"]["name"], done["list"]["count"]) == ("own", 1)
    assert "own" in json.dumps(stage.run_json("sanctions", "list"))
    (result,) = stage.run_json("sanctions", "check", "0x" + "88" * 20)
    assert (result["blocked"], result["lists"]) == (True, ["own"])
    assert stage.run_json("sanctions", "remove", "own") == [{"name": "own", "removed": True}]


@tries("leases list", "leases release")
def leases(stage: CommandEnvironment) -> None:
    (result,) = stage.run_json("leases", "list")
    first = result["leases"][0]
    assert (first["held"], bool(first["holder"])) == (True, True)
    assert stage.run_json("leases", "release", first["name"], status=ExitStatus.USAGE_ERROR)
    assert stage.run_json(
        "leases", "release", "relayer:none", "--yes", status=ExitStatus.USAGE_ERROR
    )
    (released,) = stage.run_json("leases", "release", first["name"], "--yes")
    assert int(released["epoch"]) > int(first["epoch"])


@tries("executors list", "executors pause", "executors resume")
def executors(stage: CommandEnvironment) -> None:
    item = stage.run_json("executors", "list")[0]["executors"][0]["id"]
    assert stage.run_json("executors", "pause", item)[0]["paused"] is True
    assert stage.run_json("executors", "resume", item)[0]["paused"] is False
    assert stage.run_json("executors", "pause", "eip155:1:0x1", status=ExitStatus.NOT_FOUND)


@tries("faults list", "faults clear")
def faults(stage: CommandEnvironment) -> None:
    assert stage.run_json("faults", "list") == [{"faults": []}]
    assert stage.run_json("faults", "clear") == [{"ended": 0, "left": 0}]


@tries("doctor", "demo", "migrate")
def service(stage: CommandEnvironment) -> None:
    (result,) = stage.run_json("doctor")
    assert {check["problem"] for check in result["checks"]} == {None}
    *_, last = stage.run_json("demo")
    assert last["status"] == "succeeded"
    (result,) = stage.run_json("migrate", "--status")
    assert result["schema"] == result["wanted"]
    assert stage.run_json("migrate", "--sql") == [{"statements": []}]


@tries("store partition", "archive list", "archive verify", "archive restore")
@tries("export", "store backup", "store restore", "store copy", "chain list", "chain remove")
def files(stage: CommandEnvironment) -> None:
    (done,) = stage.run_json("export", "--to", str(stage.folder / "export"))
    assert Path(done["manifest"]).exists()
    server = ("--server", stage.env["FLORIN_GRPC_TARGET"])
    of_env = {name: stage.env[name] for name in ("FLORIN_PARTNER_KEY", "FLORIN_MERCHANT_ID")}
    words = ("export", "--to", str(stage.folder / "from-server"), *server)
    assert stage.run_json(*words, **of_env)[0]["rows"]["payments"] >= 0
    assert stage.run_json("store", "partition", status=ExitStatus.REFUSED)
    assert stage.run_json("archive", "list") == [{"files": []}]
    assert stage.run_json("archive", "verify", status=ExitStatus.USAGE_ERROR)
    assert stage.run_json("archive", "restore", "pay_1", status=ExitStatus.NOT_FOUND)
    backup = stage.folder / "copy.db"
    assert stage.run_json("store", "backup", str(backup))[0]["rows"] > 0
    for command in ("restore", "copy"):
        home = stage.folder / command
        done = stage.forks("store", command, str(backup), "--json", home=home)
        assert done.status == 0, done
        assert parse_documents(done.out)[0]["tables"]["payment"] >= 0
    assert stage.run_json("chain", "list")[0]["chains"] == []
    assert stage.run_json("chain", "remove", "base", status=ExitStatus.REFUSED)[0]["error"][
        "message"
    ]


@tries("chain keystore", "chain add", "chain deploy")
def chains(stage: CommandEnvironment) -> None:
    password = {"FLORIN_KEYSTORE_PASSWORD": "so"}
    (created,) = stage.run_json("chain", "keystore", str(stage.folder / "key.json"), **password)
    assert (
        created["address"]
        == Account.from_key(Account.decrypt(Path(created["file"]).read_text(), "so")).address
    )
    node = stage.env["FLORIN_EVM_RPC_URL"]
    home = stage.folder / "chains"
    words = (
        *("chain", "add", f"--rpc-url={node}", "--chain=eip155:31337", "--name=Own"),
        *("--treasury=0x" + "44" * 20, f"--token={DEVNET.token.address}:USD:tUSD"),
        *("--test", "--no-deploy", "--yes"),
    )
    # beside the embedded one of the same id
    done = stage.forks(*words, "--json", home=home, FLORIN_DEMO="false")
    assert done.status == 0, done
    assert parse_documents(done.out)[0]["chain"] == "eip155:31337"
    done = stage.forks("chain", "deploy", "Own", "--json", home=home, FLORIN_DEMO="false")
    assert done.status == ExitStatus.REFUSED, done
    assert "has no balance of the chain's coin" in parse_documents(done.err)[0]["error"]["message"]


@tries("simulate")
def simulated(stage: CommandEnvironment) -> None:
    home = stage.folder / "simulated"
    words = ("simulate", "--payments=3", "--days=1", "--merchants=1", "--json")
    done = stage.forks(*words, home=home)
    assert done.status == 0, done
    assert parse_documents(done.out)[-1]["problems"] == []


@tries("receipt-keys list", "receipt-keys rotate", "receipt-keys revoke", "verify-receipt")
def receipts(stage: CommandEnvironment) -> None:
    (created,) = stage.run_json("receipt-keys", "rotate")
    (result,) = stage.run_json("receipt-keys", "list")
    assert created["keyId"] in {key["keyId"] for key in result["keys"]}
    (revoked,) = stage.run_json("receipt-keys", "revoke", created["keyId"])
    assert revoked["keyId"] == created["keyId"]
    file = stage.folder / "no.jws"
    file.write_text("no receipt\n")
    node = f"--rpc-url={stage.env['FLORIN_EVM_RPC_URL']}"
    (verdict,) = stage.run_json("verify-receipt", str(file), node, status=ExitStatus.REFUSED)
    assert verdict["outcome"] == "not_genuine"


@tries(
    *("webhooks create", "webhooks list", "webhooks pause", "webhooks resume"),
    *("webhooks rotate", "webhooks attempts", "webhooks replay", "webhooks delete", "trigger"),
)
def webhooks(stage: CommandEnvironment) -> None:
    (partner,) = stage.run_json("partners", "create", "Hook & Co")
    words = ("webhooks", "create", "https://shop.example/hook", "--partner", partner["id"])
    (created,) = stage.run_json(*words)
    assert created["secret"].startswith("whsec_")
    endpoint = created["endpoint"]["id"]
    (result,) = stage.run_json("webhooks", "list")
    assert endpoint in {each_endpoint["endpoint"]["id"] for each_endpoint in result["endpoints"]}
    assert stage.run_json("webhooks", "pause", endpoint)[0]["status"] == "paused"
    assert stage.run_json("webhooks", "resume", endpoint)[0]["status"] == "active"
    assert stage.run_json("webhooks", "rotate", endpoint)[0]["secret"] != created["secret"]
    assert stage.run_json("webhooks", "attempts", endpoint)[0].get("attempts", []) == []
    (triggered,) = stage.run_json("trigger", "succeeded")
    assert stage.run_json("payments", "show", triggered["paymentId"])[0]["status"] == "succeeded"
    # it belongs to another partner
    words = ("webhooks", "replay", endpoint, triggered["paymentId"])
    (refused,) = stage.run_json(*words, status=ExitStatus.NOT_FOUND)
    assert refused["error"]["code"] == "payment_not_found"
    assert stage.run_json("webhooks", "delete", endpoint)[0] == {"id": endpoint, "deleted": True}


def test_every_command_is_tried():
    assert TRIES.keys() | LASTING | PLAIN == COMMANDS


@pytest.mark.parametrize("work", dict.fromkeys(TRIES.values()), ids=lambda work: work.__name__)
def test_command_prints_json(stage, work):
    work(stage)


def test_long_running_command_prints_its_addresses(tmp_path, stage):
    for words in (
        ("serve",),
        ("worker",),
        ("gateway", "--upstream", stage.env["FLORIN_GRPC_TARGET"]),
    ):
        process = stage.forks.begin(*words, "--json", home=tmp_path / "home")
        assert process.stdout is not None
        places = json.loads(process.stdout.readline())
        assert words[0] == "worker" or places["http"].startswith("http://127.0.0.1:")
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(60)
        assert (process.wait(), out) == (0, ""), words


def test_wrong_usage_is_json_too(stage):
    for words in (["payments", "nope"], ["payments", "list", "--bad"], ["payments", "create"]):
        (result,) = stage.run_json(*words, status=ExitStatus.USAGE_ERROR)
        assert result["error"]["exit"] == ExitStatus.USAGE_ERROR
    done = stage.run("payments", "list", "--bad")
    assert (done.status, done.out) == (2, "")
    assert "No such option: --bad" in done.err


def test_forbidden_and_unreachable_have_their_own_exit_status(stage, tmp_path):
    (result,) = stage.run_json(
        "payments", "list", status=ExitStatus.FORBIDDEN, FLORIN_PARTNER_KEY="wrong"
    )
    assert result["error"]["code"] == "invalid_api_key"
    key = ["--api-key=a", "--merchant=b"]
    (result,) = stage.run_json(
        "payments", "list", "--server=127.0.0.1:1", *key, status=ExitStatus.UNREACHABLE
    )
    assert "127.0.0.1:1 does not answer" in result["error"]["message"]
    done = stage.forks("payments", "list", "--json", home=tmp_path / "home")
    assert done.status == ExitStatus.UNREACHABLE
    assert "run `florin up`" in done.err


def test_credentials_of_the_sandbox_go_to_no_other_server(stage):
    """A command that names a server must name its credentials too."""
    for words in (["payments", "list"], ["pay", "pay_1"], ["merchants", "list"]):
        (result,) = stage.run_json(*words, "--server=127.0.0.1:1", status=ExitStatus.USAGE_ERROR)
        assert "is not set" in result["error"]["message"]


def test_a_key_is_not_sent_in_plain_text_to_another_machine(stage):
    key = ["--api-key=a", "--merchant=b"]
    (result,) = stage.run_json("payments", "list", "--server=pay.example:443", *key, status=2)
    assert "unencrypted" in result["error"]["message"]
