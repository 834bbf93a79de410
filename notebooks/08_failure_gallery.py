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
# # What can go wrong, and how does a wallet handle it?
#
# You will see, all of it with real errors:
#
# - the error codes, each by a call that causes it, and a table of the codes that did not occur,
# - the outcomes that a reference id selects,
# - the faults of the test chains, each under a payment: the wallet's response, the end of the
#   payment, and its effect on the chain.

# %% tags=["parameters"]
PRICE = "1250"  # minor units: 12.50 USD

# %%
import asyncio
import time

import pandas as pd
from florin.v1 import customer_pb2, partner_pb2, system_pb2
from florin.v1.payment_pb2 import PAYMENT_STATUS_PROCESSING, PaymentStatus
from florin_client import FlorinError
from florin_client.errors import error_of
from florin_server.app.operator.error import OperatorError
from florin_server.domain.errors import ERROR_SPECS, ErrorCode
from lab import start

pd.set_option("display.max_rows", None, "display.max_colwidth", 70)

# %% [markdown]
# Faults and limits belong to the operator, so this notebook always starts its own Florin: with
# quick blocks, and with a low rate limit.

# %%
limits = {"payment_per_minute": 1, "payment_burst": 3}
lab = await start(own=True, limits=limits, embedded={"block_interval_s": 0.1})
shop, purse = lab.headers("merchant"), lab.headers("wallet")
nowhere = "pay_" + "0" * 27
raised = {}


async def refused(why, method, path, headers, body=None):
    """Make a call that must be refused, and record the error."""
    answer = await lab.rest("anonymous", method, path, body, headers)
    raised.setdefault(answer.body["code"], (answer.status, answer.body["message"], why))


def name_of(status):
    return PaymentStatus.Name(status).removeprefix("PAYMENT_STATUS_").lower()


async def new(reference=""):
    order = {"amount": ("iso4217/USD", PRICE), "reference_id": reference or None}
    return (await lab.merchant.create_payment(**order)).payment_id


# %% [markdown]
# ## Credentials
#
# All but one of these are mistakes of an installation: a retry does not help, and the buyer cannot
# do anything.

# %%
price = {"unit": "iso4217/USD", "value": PRICE}
order, wallet_key = {"amount": price}, lab.env["FLORIN_WALLET_KEY"]
key, app = {"Api-Key": shop["Api-Key"]}, {"App-Id": purse["App-Id"]}
about, pays = f"/v1/gateway/payment/{nowhere}", "/v1/payments"
await refused("no credential", "GET", about, {})
await refused("a key and an app id", "GET", about, {**purse, **key})
await refused("a client id alone", "GET", about, {"Client-Id": "phone"})
await refused("an app id alone", "GET", about, app)
await refused("an unknown app", "GET", about, {"App-Id": "app_unknown", "Client-Id": "phone"})
await refused("a mistyped key", "GET", pays, {"Api-Key": key["Api-Key"][:-4] + "oops"})
await refused("no key", "GET", f"{pays}/{nowhere}", {"Merchant-Id": shop["Merchant-Id"]})
await refused("a wallet asks as a merchant", "GET", pays, purse)
await refused("a wallet's key", "POST", pays, {**shop, "Api-Key": wallet_key}, order)
await refused("no merchant", "POST", pays, key, order)
await refused("a letter with an accent", "GET", about, {"Api-Key": "café"})
await refused(
    "a form that was never given out", "POST", "/collect/", {}, {"token": "x", "data": {}}
)

# %% [markdown]
# ## Requests
#
# `issues` name the member at fault. The programmer must correct such a request.

# %%
other = {**shop, "Merchant-Id": "mrch_unknown"}
used = {**shop, "Idempotency-Key": "gallery"}
await lab.rest("anonymous", "POST", pays, order, used)
await refused("less than nothing", "POST", pays, shop, {"amount": {**price, "value": "-1"}})
await refused("no number", "GET", f"{about}/status?maxPollMs=soon", purse)
await refused("no such payment", "GET", about, purse)
await refused("no such merchant", "POST", pays, other, order)
await refused("a key used before", "POST", pays, used, {**order, "referenceId": "other"})
await refused("no date", "GET", about, {**purse, "Pay-Version": "newest"})
await refused("never published", "GET", about, {**purse, "Pay-Version": "2020-01-01"})

# %% [markdown]
# ## States of a payment
#
# Wallets and merchants meet these in daily use. The last table lists the reaction to each.

# %%
buyer = lab.wallet()
chain_id = lab.env["FLORIN_EVM_CHAIN"]
accounts = {"accounts": buyer.accounts(chain_id)}
paid = await new("florin_test:succeeded")
back = {"paymentId": paid}
cancel = f"/v1/gateway/payment/{paid}/cancel"
for _ in range(limits["payment_burst"] + 1):
    await refused("is paid, or tried too often", "POST", cancel, purse)
await refused("not paid", "POST", "/v1/refunds", shop, {"paymentId": await new()})
await lab.rest("merchant", "POST", "/v1/refunds", back)
await refused("refunded before", "POST", "/v1/refunds", shop, back)
for trigger in ("expired", "blocked"):
    path = f"/v1/gateway/payment/{await new(f'florin_test:{trigger}')}/options"
    await refused(f"florin_test:{trigger}", "POST", path, purse, accounts)
path = f"/v1/gateway/payment/{await new('florin_test:quote_expired')}"
(lapsed, *_) = (await lab.rest("wallet", "POST", f"{path}/options", accounts)).body["options"]
fetch = {"optionId": lapsed["id"]}
await refused("florin_test:quote_expired", "POST", f"{path}/fetch", purse, fetch)

# %% [markdown]
# ## A chain that does not respond
#
# An `internal_error` with 503 means that the request is valid. The wallet has signed; once the
# chain responds again, Florin accepts the same confirm.

# %%
silent = {"kind": "answer", "method": "eth_call", "effect": "error", "times": 20}
path = f"/v1/gateway/payment/{await new()}"
(option, *_) = (await lab.rest("wallet", "POST", f"{path}/options", accounts)).body["options"]
results = [{"type": "walletRpc", "data": buyer.execute(option["actions"], option=option)}]
confirm = {"optionId": option["id"], "results": results}
await lab.chain("florin_fault", silent)
await refused("the chain does not answer", "POST", f"{path}/confirm", purse, confirm)
await lab.chain("florin_fault", {"kind": "clear"})
repeated = await lab.rest("wallet", "POST", f"{path}/confirm", confirm)
print("the same once more:", repeated.status, repeated.body["status"])

# %% [markdown]
# ## The operator's calls
#
# Over gRPC only, with codes of the same list. This section creates the live key and the wallet that
# is pinned to a newer version.


# %%
async def operator_refused(request):
    try:
        await lab.operator(request)
    except OperatorError as error:
        call = error.__cause__
        refusal = error_of(call.code(), call.details(), call.trailing_metadata())
        raised.setdefault(
            refusal.code, (refusal.http_status, refusal.message, type(request).__name__)
        )


active = partner_pb2.PARTNER_STATUS_ACTIVE
partner = await lab.operator(partner_pb2.CreatePartnerRequest(name="Tea & Co"))
house = {
    "partner_id": partner.id,
    "merchant_id": "tea-house",
    "name": "T",
    "email": "t@tea.example",
}
await lab.operator(partner_pb2.ImportMerchantRequest(**house))
await operator_refused(partner_pb2.ImportMerchantRequest(**house))
await operator_refused(partner_pb2.RevokeApiKeyRequest(key_id="none"))
await operator_refused(partner_pb2.SetPartnerStatusRequest(partner_id="none", status=active))
await operator_refused(partner_pb2.RevokeWalletRequest(app_id="none"))
await operator_refused(customer_pb2.ExportCustomerRequest(account=lab.wallet().account(chain_id)))
await operator_refused(system_pb2.PauseExecutorRequest(executor_id=f"{chain_id}:0x{'11' * 20}"))

# %%
kind = partner_pb2.API_KEY_KIND_PARTNER
ask = partner_pb2.CreateApiKeyRequest(kind=kind, live=True, partner_id=partner.id)
live = {"Api-Key": (await lab.operator(ask)).secret}
await refused("a live key in the sandbox", "GET", "/v1/sandbox/clock", live)
versions = (await lab.rest("anonymous", "GET", "/versions")).body
pinned = await lab.operator(partner_pb2.RegisterWalletRequest(name="Purse"))
newest = {"app_id": pinned.app_id, "version": versions["preview"][-1]}
await lab.operator(partner_pb2.SetApiVersionRequest(**newest))
older = {"App-Id": pinned.app_id, "Client-Id": "phone", "Pay-Version": versions["stable"][-1]}
await refused("older than the pin", "GET", about, older)

# %% [markdown]
# ## Codes of the deployed profile
#
# Callers that send `WCP-Version` instead of `Pay-Version` get different codes for some errors.

# %%
deployed = {**shop, "WCP-Version": versions["stable"][-1]}
merchants = "/v1/merchants"
place = {"asset": "eip155:1/slip44:60", "destination": f"eip155:1:{buyer.evm.address}"}
twice = {"settlements": [place, place]}
tea = {"merchantName": "Tea House", "merchantEmail": "owner@tea-house.example"}
await refused("no such merchant", "GET", f"{merchants}/mrch_unknown", deployed)
await refused("no idempotency key", "POST", merchants, deployed, tea)
places = f"{merchants}/{shop['Merchant-Id']}/settlements/crypto"
keyed = {**deployed, "Idempotency-Key": "twice"}
await refused("one asset twice", "POST", places, keyed, twice)

# %% [markdown]
# ## Codes that occurred
#
# Every code of the [reference](../docs/reference/errors.md), with the call that caused it here.
# Some need a fault that cannot be caused from outside.

# %%
why_not = {
    "bad_gateway": "a database that does not respond, for the deployed profile",
    "version_conflict": "the database serializes changes, so none is lost",
}
codes = pd.DataFrame(
    (
        code,
        *raised.get(code, (ERROR_SPECS[code].http_status, ERROR_SPECS[code].message, "")),
        code in raised,
    )
    for code in ErrorCode
)
codes.columns = ["code", "HTTP", "message", "how", "raised"]
codes["how"] = codes["how"].where(codes["raised"], codes["code"].map(why_not))
print(int(codes["raised"].sum()), "of", len(codes), "codes occurred")
codes

# %% [markdown]
# ## Outcomes on request
#
# The prefix of a reference id gives a test payment its outcome, without a chain. A declined payment
# must be confirmed first, and moves no money.

# %%
outcomes = {}
for name in ("succeeded", "failed", "expired", "cancelled", "stall"):
    status = await lab.merchant.get_payment_status(await new(f"florin_test:{name}"))
    outcomes[name] = name_of(status.status)
declined = await lab.pay(await new("florin_test:declined"), buyer)
outcomes["declined"] = name_of(declined.status)
none = await lab.gateway.get_payment_options(await new("florin_test:no_options"), **accounts)
outcomes["no_options"] = f"{len(none.options)} options"
pd.Series(outcomes, name="response").to_frame()

# %% [markdown]
# ## Faults of the chains
#
# `florin_fault` is a method of the embedded chains. The notebook arms each fault before a wallet
# confirms; the wallet has already signed. While the payment is in `processing`, the clock moves on.
#
# | Column | |
# |-|-|
# | confirm | response to the wallet: a status, or a code; after `quote_expired` it signs again |
# | waits | seen in `processing` while a lasting fault was active |
# | end | the final status |
# | moved | how often the merchant received its money, read from the chain |


# %%
async def merchant_holds(solana):
    if not solana:
        return await lab.balance(lab.env["FLORIN_MERCHANT_DESTINATION"].rpartition(":")[2])
    owner = lab.env["FLORIN_SOLANA_DESTINATION"].rpartition(":")[2]
    mint = {"mint": lab.env["FLORIN_SOLANA_ASSET"].rpartition(":")[2]}
    encoded = {"encoding": "jsonParsed", "commitment": "finalized"}
    response = await lab.chain("getTokenAccountsByOwner", owner, mint, encoded, solana=True)
    held = [
        token_account["account"]["data"]["parsed"]["info"]["tokenAmount"]
        for token_account in response["value"]
    ]
    return sum(int(balance["amount"]) for balance in held)


async def ended(payment_id, looks=150):
    for _ in range(looks):
        status = await lab.merchant.get_payment_status(payment_id)
        if status.is_final:
            break
        await lab.admin.advance_test_clock(seconds=11)
        await asyncio.sleep(0.1)
    return status.status


# %%
async def attempt(payment_id, solana, fault=None):
    """Sign for an option and confirm; return the wallet's response, and the price."""
    chain = lab.env[f"FLORIN_{'SOLANA' if solana else 'EVM'}_CHAIN"]
    offered = await lab.gateway.get_payment_options(payment_id, accounts=buyer.accounts(chain))
    option = offered.options[0]
    actions = await lab.gateway.executable_actions(payment_id, option)
    outputs = await asyncio.to_thread(buyer.execute, actions, option=option)
    if fault:
        await lab.chain("florin_fault", fault, solana=solana)
    try:
        confirm = {"option_id": option.id, "outputs": outputs}
        status = (await lab.gateway.confirm_payment(payment_id, **confirm)).status
    except FlorinError as error:
        return error.code, int(option.amount.value)
    return name_of(status), int(option.amount.value)


# %%
async def under(fault, lasts=False, solana=False):
    """Pay with a fault armed; `lasts` if it must be cleared before the payment can end."""
    began, payment_id, held = time.monotonic(), await new(), await merchant_holds(solana)
    response, price = await attempt(payment_id, solana, fault)
    if response == "quote_expired":
        again, price = await attempt(payment_id, solana)
        response = f"{response}, then {again}"
    waits = lasts and await ended(payment_id, looks=5) == PAYMENT_STATUS_PROCESSING
    if lasts:
        await lab.chain("florin_fault", {"kind": "clear"}, solana=solana)
    end = name_of(await ended(payment_id))
    await lab.chain("florin_fault", {"kind": "clear"}, solana=solana)
    moved = (await merchant_holds(solana) - held) / price
    what = " ".join(str(value) for value in fault.values())
    row = {
        "chain": "Solana" if solana else "EVM",
        "fault": what,
        "confirm": response,
        "waits": waits,
    }
    return {**row, "end": end, "moved": moved, "s": round(time.monotonic() - began, 1)}


# %% [markdown]
# ## Faulty responses of nodes
#
# The node answers Florin's calls with faults: refused, executed and refused, empty, lost, late, or
# false. The wallet notices none of them.

# %%
LIE = "0x" + "11" * 32
effects = {"error": {}, "late_error": {}, "null": {}, "drop": {}}
effects |= {"delay": {"delayMs": 500}, "lie": {"result": LIE}}
answer = {"kind": "answer", "method": "eth_sendRawTransaction", "times": 1}
rows = [await under({**answer, "effect": name, **more}) for name, more in effects.items()]
pd.DataFrame(rows)

# %% [markdown]
# ## Faulty chains
#
# A chain without blocks, a transaction that fails, a node that lags, blocks that are replaced, gas
# that gets more expensive.

# %%
mine = {"kind": "reorg", "depth": 1, "delay": 1}
rows += [
    await under({"kind": "mining", "paused": True}, lasts=True),
    await under({"kind": "revert", "times": 1}),
    await under({"kind": "lag", "blocks": 2}),
    await under(mine),
    await under({"kind": "baseFee", "wei": hex(5 * 10**9)}),
]
pd.DataFrame(rows[len(effects) :])

# %% [markdown]
# ## Solana
#
# No transaction lands, so many slots pass after the signature that the transaction expires, a node
# keeps little history, and a transaction is lost.

# %%
lost = {"kind": "answer", "method": "sendTransaction", "effect": "drop", "times": 1}
of_solana = [
    await under({"kind": "landing", "paused": True}, lasts=True, solana=True),
    await under({"kind": "slots", "slots": 200}, solana=True),
    await under({"kind": "prune", "slots": 150}, solana=True),
    await under(lost, solana=True),
]
rows += of_solana
pd.DataFrame(of_solana)

# %% [markdown]
# ## Reactions of a wallet
#
# | Response | Reaction |
# |-|-|
# | no response | repeat the same confirm as often as needed: it has one effect |
# | `processing` | wait, by stream or long poll; never sign a second time |
# | `internal_error` or `bad_gateway` with 502 or 503 | repeat the same call, with growing delays |
# | `rate_limited` | repeat the same call after the time in `Retry-After` |
# | `quote_expired` | request options again, and show the new price |
# | `payment_expired`, or any final status | end; the buyer gets a new payment from the shop |
# | `sanctioned_user` | offer a different account, if the wallet has one |
# | `params_validation` with `ic_required` | open the form in `details.url` |
# | any other code | show `message` and record `requestId`: a programmer must check |
#
# ## The totals reconcile

# %%
faults = pd.DataFrame(rows)
armed = [
    await lab.chain("florin_fault", {"kind": "list"}, solana=solana) for solana in (False, True)
]
print(len(faults), "faults, slowest", faults["s"].max(), "s;", armed)
assert set(codes.loc[~codes["raised"], "code"]) == set(why_not)
assert outcomes["stall"] == "processing"
assert outcomes["declined"] == "failed"
assert all(outcomes[name] == name for name in ("succeeded", "failed", "expired", "cancelled"))
assert outcomes["no_options"] == "0 options"
http_statuses = {code: http for code, (http, *_) in raised.items()}
# 503 instead of 500: the same call can succeed later
assert http_statuses.pop("internal_error") == 503
assert all(ERROR_SPECS[ErrorCode(code)].http_status == http for code, http in http_statuses.items())
assert repeated.status == 200
# with every fault, the payment succeeded, and the money moved once
assert faults["confirm"].str.endswith("processing").all()
assert set(faults["end"]) == {"succeeded"}
assert (faults["moved"] == 1).all()
assert faults.loc[faults["fault"].str.contains("mining|landing"), "waits"].all()
await lab.close()
