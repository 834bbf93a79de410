# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # What does it take to go live on your own chain?
#
# You will see the commands of an operator, from an empty folder to the first live payment:
#
# - a chain is added by its node's address, and gets the settlement contract,
# - Florin runs with it, without test accounts,
# - a wallet pays a merchant, and the ledger agrees with the chain.

# %% tags=["parameters"]
CHAIN_ID = 424242  # chain id of the substitute for a real chain
CONFIRMATIONS = 2  # blocks for finality; a real chain needs more

# %%
import asyncio
import os
import sys
import tempfile
from pathlib import Path

import pandas as pd
from florin.v1.ledger_pb2 import BALANCE_VERDICT_EXACT, BalanceVerdict, CheckLedgerRequest
from florin.v1.partner_pb2 import (
    API_KEY_KIND_PARTNER,
    CreateApiKeyRequest,
    CreatePartnerRequest,
    ImportMerchantRequest,
    RegisterWalletRequest,
)
from florin.v1.payment_pb2 import PaymentStatus
from florin_client import AsyncClient
from florin_client.wallet import Wallet
from florin_sandbox.devnet.evm import DEVNET, EvmDevChain, EvmDevSettings
from florin_server.app.home import StateFolder
from florin_server.app.operator.client import open_operator
from florin_server.rails.connection.jsonrpc import JsonRpcClient, LocalTransport
from florin_server.rails.evm.setup.deployment import DEPLOYER, DEPLOYER_CODE
from florin_server.settings import Settings
from lab import refuse, units

refuse()  # this notebook starts everything itself

# %% [markdown]
# ## A substitute for a real chain
#
# The embedded chain plays this role: with a different chain id, a foreign token, the deterministic
# deployer that real chains have, and nothing of Florin. All following steps call its node over
# HTTP, like any other node.

# %%
settings = EvmDevSettings(chain_id=CHAIN_ID, code={DEPLOYER: DEPLOYER_CODE}, block_interval_s=0.2)
chain = await EvmDevChain.open(None, settings)
node = f"http://127.0.0.1:{await chain.serve_http()}"
rpc, name = JsonRpcClient(LocalTransport(chain.handle)), f"eip155:{CHAIN_ID}"


async def give(address, wei=0, tokens=0):
    gift = {"accounts": [address], "nativeWei": hex(wei), "tokenUnits": hex(tokens)}
    await rpc.call("florin_faucet", gift)


async def holds(address):
    data = "0x70a08231" + address[2:].lower().rjust(64, "0")
    return int(await rpc.call("eth_call", {"to": DEVNET.token.address, "data": data}, "latest"), 16)


# %% [markdown]
# ## A separate folder
#
# Real money needs a state folder that was never used for tests, and keys that a password decrypts.
# Commands write messages for people to stderr, and output for scripts to stdout; here both are
# shown. `FLORIN_PAY_URL` is where buyers reach the pages: `florin doctor` reports a fault if buyers
# cannot reach it.

# %%
folder = tempfile.TemporaryDirectory()
home = Path(folder.name) / "florin"
clean = {key: value for key, value in os.environ.items() if not key.startswith("FLORIN_")}
ports = {"FLORIN_HTTP_PORT": "0", "FLORIN_GRPC_PORT": "0"}
public = {"FLORIN_PAY_URL": "https://pay.example"}
secret = {"FLORIN_KEYSTORE_PASSWORD": "correct horse battery staple"}
# kernels make programs print colors
plain = {"NO_COLOR": "1", "FORCE_COLOR": "", "CLICOLOR_FORCE": ""}
environment = {**clean, **ports, **public, **secret, **plain, "FLORIN_HOME": str(home)}
program = str(Path(sys.executable).with_name("florin"))
pipes = {"stdout": asyncio.subprocess.PIPE, "stderr": asyncio.subprocess.PIPE}


async def florin(*words):
    print("$ florin", *words)
    process = await asyncio.create_subprocess_exec(program, *words, env=environment, **pipes)
    out, err = (text.decode().strip() for text in await process.communicate())
    print(*(text for text in (err, out) if text), "", sep="\n")
    return process.returncode, out, err


# %% [markdown]
# ## The chain is added
#
# The command reads the properties of the node and the token, and creates two keys: one pays for
# gas, the other receives fees and pays refunds.

# %%
words = ["chain", "add", "--rpc-url", node, "--chain", name, "--name", "Far Away", "--live"]
words += ["--token", f"{DEVNET.token.address}:USD", "--new-relayer", "--new-treasury"]
words += ["--confirmations", str(CONFIRMATIONS), "--poll-ms", "100", "--yes"]
added = await florin(*words)
fields = dict(line.split(": ", 1) for line in added[2].splitlines() if ": " in line)
relayer, treasury = fields["Relayer"].lower(), fields["Treasury"].lower()

# %% [markdown]
# ## The contract
#
# The relayer pays for the deployment, and needs some native coin first. The address is the same on
# every chain; where the contract already exists, the command does nothing.

# %%
await give(relayer, wei=10**18)
deployed = await florin("chain", "deploy", "far-away", "--yes")

# %% [markdown]
# ## A check before the start

# %%
doctor = await florin("doctor")

# %% [markdown]
# ## Florin runs
#
# The address of the service is in its folder, for commands and for this notebook. There is no
# `demo.env`: embedded chains and test accounts are off once a live chain exists.

# %%
log = (Path(folder.name) / "log").open("wb")
service = await asyncio.create_subprocess_exec(
    program, "up", env=environment, stdout=log, stderr=log
)
for _ in range(300):
    where = StateFolder(home).find_addresses()
    if where or service.returncode is not None:
        break
    await asyncio.sleep(0.1)
demo = (home / "demo.env").exists()
print("gRPC at", where["grpc"], "| demo.env:", demo)

# %% [markdown]
# ## Callers
#
# A partner with its key, a merchant, a wallet, each for live data. In a shell, use `florin partners
# create`, `florin keys create`, `florin merchants import` and `florin wallets register`, with
# `--live`; the notebook makes the same calls to the running service.

# %%
async with open_operator(StateFolder(home), lambda: Settings(home=home), running_only=True) as desk:
    partner = await desk.call("CreatePartner", CreatePartnerRequest(name="Tea & Co"))
    key_options = {"kind": API_KEY_KIND_PARTNER, "partner_id": partner.id, "live": True}
    key = (await desk.call("CreateApiKey", CreateApiKeyRequest(**key_options))).secret
    who = {"merchant_id": "tea-house", "name": "Tea House", "email": "owner@tea-house.example"}
    request = ImportMerchantRequest(partner_id=partner.id, live=True, **who)
    merchant = (await desk.call("ImportMerchant", request)).merchant.id
    request = RegisterWalletRequest(name="Purse", live=True)
    app_id = (await desk.call("RegisterWallet", request)).app_id
print(partner.id, merchant, app_id, key[:11] + "…")

# %% [markdown]
# ## The first live payment
#
# The merchant sets its destination, and requests a payment. The buyer has tokens and no native
# coin: the buyer signs, and the relayer pays for gas.

# %%
here = {"target": where["grpc"], "plaintext": True}
shop = AsyncClient(**here, api_key=key, merchant_id=merchant)
purse = AsyncClient(**here, app_id=app_id, client_id="phone-1")
buyer, owner = Wallet.create(), Wallet.create()
await give(buyer.evm.address, tokens=100_000_000)
asset = f"{name}/erc20:{DEVNET.token.address}"
destinations = {asset: owner.account(name)}
await shop.admin.create_crypto_settlements(merchant, destinations=destinations)
payment = await shop.merchant.create_payment(amount=("iso4217/USD", 1250))
offered = await purse.gateway.get_payment_options(payment.payment_id, accounts=buyer.accounts(name))
(option,) = offered.options
outputs = buyer.execute(option.actions, option=option)
await purse.gateway.confirm_payment(payment.payment_id, option_id=option.id, outputs=outputs)
final = await shop.merchant.wait_final(payment.payment_id, timeout=60)
print(PaymentStatus.Name(final.status), "live:", payment.live, final.info.tx_id)

# %% [markdown]
# ## The transaction on the chain
#
# The relayer sent the transaction to the deployed contract; the token moved from the buyer to the
# merchant.

# %%
receipt = await rpc.call("eth_getTransactionReceipt", final.info.tx_id)
held = {
    "buyer": await holds(buyer.evm.address),
    "merchant": await holds(owner.evm.address),
    "treasury": await holds(treasury),
}
display = option.amount.display
pd.Series({who: units(held[who], display.decimals) for who in held}, name="tokens").to_frame()

# %% [markdown]
# ## The ledger
#
# The operator's check compares the ledger with the chain, like `florin ledger check`, while the
# service runs. A real chain differs in four points: the address of the node, native coin for the
# relayer that has a price, a suitable confirmation depth, and TLS in front of the service.

# %%
async with open_operator(StateFolder(home), lambda: Settings(home=home), running_only=True) as desk:
    for _ in range(100):
        check = await desk.call("CheckLedger", CheckLedgerRequest())
        if {wallet.verdict for wallet in check.wallets} == {BALANCE_VERDICT_EXACT}:
            break
        await asyncio.sleep(0.1)
books = pd.DataFrame(
    {
        "wallet": {relayer: "relayer", treasury: "treasury"}.get(account, account),
        "asset": wallet.asset.rpartition("/")[2].partition(":")[0],
        "booked": wallet.booked,
        "held": wallet.held,
        "verdict": BalanceVerdict.Name(wallet.verdict).removeprefix("BALANCE_VERDICT_").lower(),
    }
    for wallet in check.wallets
    for account in [wallet.account.rpartition(":")[2]]
)
books

# %% [markdown]
# ## The totals reconcile

# %%
await shop.close()
await purse.close()
service.terminate()
ended = await service.wait()
log.close()
await chain.close()
folder.cleanup()
assert (added[0], deployed[0]) == (0, 0)
assert (doctor[0], ended) == (1, 0)  # pay_url is not reachable before the start
assert not demo
assert list(check.problems) == []
assert set(books["verdict"]) == {"exact"}
assert payment.live
assert PaymentStatus.Name(final.status) == "PAYMENT_STATUS_SUCCEEDED"
assert (receipt["from"], receipt["to"]) == (relayer, deployed[1].lower())
price = int(option.amount.value)
assert held == {"buyer": 100_000_000 - price, "merchant": price, "treasury": 0}
