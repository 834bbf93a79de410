"""A client of the newest release at this server, and this client at a server of that release."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import PATIENCE_S, RunningCommand, make_environment
from tests.support.released_versions import RELEASED, ReleasedCode, unpack_code

PAYS = """
import os
import florin_client
from florin.v1.payment_pb2 import PAYMENT_STATUS_SUCCEEDED
from florin_client import Client
from florin_client.wallet import Wallet

env = os.environ
released = "PYTHONPATH" in env
target, chain = env["FLORIN_GRPC_TARGET"], env["FLORIN_EVM_CHAIN"]
shop = Client(target, plaintext=True, api_key=env["FLORIN_PARTNER_KEY"],
              merchant_id=env["FLORIN_MERCHANT_ID"])
app = Client(target, plaintext=True, app_id=env["FLORIN_APP_ID"],
             client_id=env["FLORIN_CLIENT_ID"])
buyer = Wallet.create(rpc_urls={chain: env["FLORIN_EVM_RPC_URL"]})
payment = shop.merchant.create_payment(amount=("iso4217/USD", 1250))
pay_id = payment.payment_id
offered = app.gateway.get_payment_options(pay_id, accounts=buyer.accounts(chain))
option = offered.options[0]
actions = app.gateway.executable_actions(pay_id, option)
# wallets of 0.3.0 do not compare the actions with the option
compared = {} if released else {"option": option}
outputs = buyer.execute(actions, **compared)
app.gateway.confirm_payment(pay_id, option_id=option.id, outputs=outputs)
assert shop.merchant.wait_final(pay_id, timeout=60).status == PAYMENT_STATUS_SUCCEEDED
assert pay_id in [row.payment_id for row in shop.merchant.list_payments(limit=5)]
print(florin_client.__file__)
"""


@pytest.fixture
def released(tmp_path) -> ReleasedCode:
    return unpack_code(RELEASED[-1], tmp_path)


def pay(server: RunningCommand, **changes: str) -> Path:
    """Pay a payment; return where the client is."""
    done = subprocess.run(
        [sys.executable, "-c", PAYS],
        env={"PATH": os.environ["PATH"], **server.env, **changes},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S * 3,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


@pytest.mark.long
def test_client_of_the_newest_release_pays_at_this_server(released, forks, tmp_path):
    with forks.start_lasting("up", home=tmp_path / "home") as server:
        assert pay(server, **released.variables).is_relative_to(released.folder)


@pytest.mark.long
def test_client_pays_at_a_server_of_the_newest_release(released, tmp_path):
    def begin(*command: str, home: Path, **changes: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*released.program, *command],
            cwd=home.parent,
            env=make_environment(home, {**changes, **released.variables}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    with RunningCommand("up", home=tmp_path / "home", begin=begin) as server:
        assert not pay(server).is_relative_to(released.folder)
