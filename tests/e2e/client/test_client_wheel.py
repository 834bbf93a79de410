"""The client as a user installs it: its wheel and that of the options, in a fresh environment.

There is no repository there. The test needs a package registry. Without one it is skipped with a
reason; in CI (`CI=true`) it fails instead.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from grpc_tools import protoc

from tests.support import pip
from tests.support.documents import ROOT

pytestmark = pytest.mark.slow

RUN_S = 120
# the dependencies of a user, and nothing of the server
ALONE = {
    *("florin-client", "googleapis-common-protos", "grpc-rest-gateway-options", "grpcio"),
    "protobuf",
    *("types-grpcio", "types-protobuf", "typing-extensions"),
}
LISTED = """
from importlib.metadata import distributions
print(*sorted({one.metadata["Name"].replace("_", "-") for one in distributions()}))
"""
PAYS = """
import os
from florin.v1.payment_pb2 import PAYMENT_STATUS_SUCCEEDED
from florin_client import Client
from florin_client.wallet import Wallet

env = os.environ
target, evm, solana = (env[f"FLORIN_{one}"] for one in ("GRPC_TARGET", "EVM_CHAIN", "SOLANA_CHAIN"))
shop = Client(target, plaintext=True, api_key=env["FLORIN_PARTNER_KEY"],
              merchant_id=env["FLORIN_MERCHANT_ID"])
app = Client(target, plaintext=True, app_id=env["FLORIN_APP_ID"],
             client_id=env["FLORIN_CLIENT_ID"])
buyer = Wallet.create(rpc_urls={evm: env["FLORIN_EVM_RPC_URL"]})
for currency, chain in (("USD", evm), ("EUR", evm), ("GBP", evm), ("USD", solana)):
    payment = shop.merchant.create_payment(amount=(f"iso4217/{currency}", 1250))
    pay_id = payment.payment_id
    offered = app.gateway.get_payment_options(pay_id, accounts=buyer.accounts(chain))
    option = offered.options[0]
    actions = app.gateway.executable_actions(pay_id, option)
    outputs = buyer.execute(actions, option=option)
    app.gateway.confirm_payment(pay_id, option_id=option.id, outputs=outputs)
    final = shop.merchant.wait_final(pay_id, timeout=60)
    assert final.status == PAYMENT_STATUS_SUCCEEDED, final
    print(currency, *(action.wallet_rpc.method for action in actions))
"""
# correct calls give no message, each incorrect line gives an error
TYPED = """
import grpc
from florin.v1.merchant_pb2_grpc import MerchantServiceStub
from florin.v1.payment_pb2 import GetPaymentRequest, WatchPaymentRequest
from florin_client import AsyncClient, Client, NotFoundError

def sync(client: Client, channel: grpc.Channel) -> str:
    for row in client.merchant.list_payments(limit=5):
        print(row.payment_id)
    for update in client.merchant.watch_payment("pay_1", after_version=1):
        print(update.payment.status)
    stub = MerchantServiceStub(channel)
    detail = stub.GetPayment(GetPaymentRequest(payment_id="pay_1"))
    return detail.reference_id

async def aio(client: AsyncClient, channel: grpc.aio.Channel) -> str:
    try:
        detail = await client.merchant.get_payment("pay_1", timeout=5)
    except NotFoundError as error:
        return error.code
    stub = MerchantServiceStub(channel)
    async for update in stub.WatchPayment(WatchPaymentRequest(payment_id="pay_1")):
        print(update.version)
    return detail.payment_id
"""
WRONG = {
    "client.merchant.get_paymnt": "client.merchant.get_payment",
    'get_payment("pay_1", timeot=5)': 'get_payment("pay_1", timeout=5)',
    "detail.payment_idd": "detail.payment_id",
    "row.paymentid": "row.payment_id",
    "update.payment.state": "update.payment.status",
    "update.versoin": "update.version",
    "stub.GetPaymnt(": "stub.GetPayment(",
    "stub.WatchPaymnt(": "stub.WatchPayment(",
    "detail.reference": "detail.reference_id",
    'GetPaymentRequest(paymentid="pay_1")': 'GetPaymentRequest(payment_id="pay_1")',
    "error.cod": "error.code",
}


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> Path:
    """Make a fresh environment, and the wheels to install; return its interpreter.

    The client's wheel is the one that its sdist makes.
    """
    folder = tmp_path_factory.mktemp("client")
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout")
    built(ROOT / "client", "sdist", folder)
    (sdist,) = folder.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "sdist", filter="data")
    built(folder / "sdist" / sdist.name.removesuffix(".tar.gz"), "wheel", folder)
    built(ROOT / "gateway" / "options", "wheel", folder)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    return folder / "venv" / "bin" / "python"


@pytest.fixture
def shop(tmp_path, forks) -> Iterator[dict[str, str]]:
    """Return the demo.env of a Florin whose coin has a price in pounds."""
    rates = json.dumps({"eip155:31337/slip44:60": {"GBP": "2500.00"}})
    with forks.start_lasting("up", home=tmp_path / "home", FLORIN_RATES=rates) as florin:
        yield florin.env


def built(source: Path, target: str, out: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", out]
    subprocess.run(command, cwd=source, capture_output=True, check=True, timeout=RUN_S)


def install(python: Path, *packages: str) -> None:
    """Install packages; without a registry, skip the test or fail it in CI."""
    if fault := pip.install_packages(str(python), *packages):
        missing = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        missing(f"NOT TESTED in a fresh environment: {fault}")


def run(python: Path, *command: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the environment, with no other on its path."""
    clean = {"PATH": os.environ["PATH"], "HOME": str(python.parents[2]), **env}
    return subprocess.run(
        [python, *command],
        cwd=python.parents[2],
        env=clean,
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )


def test_the_wheel_alone_is_typed_complete_and_pays(alone, shop):
    (wheel,) = alone.parents[2].glob("florin_client-*.whl")
    (options,) = alone.parents[2].glob("grpc_rest_gateway_options-*.whl")
    install(alone, str(options), str(wheel))
    assert set(run(alone, "-c", LISTED).stdout.split()) == ALONE
    without = run(alone, "-c", "import florin_client.wallet")
    assert without.stderr.splitlines()[-1].endswith("pip install 'florin-client[wallet]'")
    its_protos_load(alone)
    install(alone, f"{wheel}[wallet]", "mypy")
    misspelt_is_an_error(alone)
    paid = run(alone, "-c", PAYS, **shop)
    assert paid.returncode == 0, paid.stderr
    assert paid.stdout.splitlines() == [
        "USD eth_signTypedData_v4",
        "EUR eth_sendTransaction eth_signTypedData_v4",
        "GBP eth_sendTransaction",
        "USD solana_signTransaction",
    ]


def its_protos_load(python: Path) -> None:
    """The protos are beside their code, with their imports beyond protobuf's own."""
    (site,) = (python.parents[1] / "lib").glob("python*/site-packages")
    protos = [str(path.relative_to(site)) for path in site.glob("florin/v1/*.proto")]
    assert len(protos) > 10
    own = Path(protoc.__file__).parent / "_proto"
    out = f"--descriptor_set_out={python.parents[2] / 'image'}"
    assert protoc.main(["protoc", f"-I{site}", f"-I{own}", out, *protos]) == 0


def misspelt_is_an_error(python: Path) -> None:
    """A strict type checker reports misspelt names without any setting for Florin."""
    folder = python.parents[2]
    (folder / "right.py").write_text(TYPED)
    wrong = folder / "wrong"
    wrong.mkdir()
    for number, (bad, good) in enumerate(WRONG.items()):
        assert good in TYPED
        (wrong / f"wrong_{number}.py").write_text(TYPED.replace(good, bad))
    right = run(python, "-m", "mypy", "--strict", "right.py")
    assert right.stdout.startswith("Success"), right.stdout
    stdout = run(python, "-m", "mypy", "--strict", wrong).stdout
    silent = [bad for number, bad in enumerate(WRONG) if f"wrong_{number}.py:" not in stdout]
    assert silent == []
