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
# # Which calls does a payment take over REST?
#
# You will see every call of a payment, with its JSON:
#
# - a merchant creates the payment and receives its changes, by long polls and by a stream of
#   events,
# - a wallet asks for options, fetches a `build` action, executes it and confirms,
# - long polls, whose responses wait until the status changes.

# %% tags=["parameters"]
PRICE = "1250"  # minor units: 12.50 USD
HOLD_MS = 20_000  # longest wait for a response

# %%
import asyncio
import json
import time

from lab import start, units

lab = await start()

# %% [markdown]
# ## The calls
#
# | Caller | Call | Purpose |
# |-|-|-|
# | merchant | `POST /v1/payments` | create a payment; returns its id and link |
# | merchant | `GET /v1/payments/{id}/status?maxPollMs=…` | its status, after a change |
# | merchant | `GET /v1/payments/{id}/events` | its changes, as server-sent events |
# | merchant | `GET /v1/payments/{id}` | all details |
# | wallet | `GET /v1/gateway/payment/{id}` | amount and merchant |
# | wallet | `POST /v1/gateway/payment/{id}/options` | options for the wallet's accounts |
# | wallet | `POST /v1/gateway/payment/{id}/fetch` | resolve a `build` action |
# | wallet | `POST /v1/gateway/payment/{id}/confirm?maxPollMs=…` | pay, and wait until final |
# | wallet | `GET /v1/gateway/payment/{id}/status?maxPollMs=…` | its status, as for the merchant |
#
# A merchant sends `Api-Key` and `Merchant-Id`, a wallet `App-Id` and `Client-Id`.

# %% [markdown]
# ## The merchant creates a payment
#
# `expiresAt` is in Unix seconds: from then on, the payment can no longer be confirmed.

# %%
order = {"amount": {"unit": "iso4217/USD", "value": PRICE}, "referenceId": "notebook-01"}
created = await lab.rest("merchant", "POST", "/v1/payments", order)
payment_id = created.body["paymentId"]
print(created)

# %% [markdown]
# ## The merchant subscribes
#
# The stream starts with the current status. `version` counts the changes, and is the event's id: a
# client that reconnects with it in `Last-Event-ID` receives only newer versions. A cell below reads
# the stream to its end.

# %%
events = lab.events("merchant", f"/v1/payments/{payment_id}/events")
name, first = await anext(events)
print("event:", name)
print("data:", json.dumps(first))

# %% [markdown]
# ## The wallet reads the payment

# %%
side = f"/v1/gateway/payment/{payment_id}"
print(await lab.rest("wallet", "GET", side))

# %% [markdown]
# ## The wallet requests options
#
# The wallet sends all its accounts, and gets an option for each asset of which an account has
# enough. (A test chain funds every account that requests options.) An option is a price in one
# asset, for one account, with the actions that pay it.

# %%
wallet = lab.wallet()
solana = lab.env["FLORIN_SOLANA_CHAIN"]
accounts = wallet.accounts(lab.env["FLORIN_EVM_CHAIN"], solana)
offered = await lab.rest("wallet", "POST", f"{side}/options", {"accounts": accounts})
print(offered)

# %% [markdown]
# ## Two types of actions
#
# `walletRpc` is a call that the wallet executes unchanged. `build` is a placeholder for a call that
# would expire while the buyer decides: the wallet fetches it once the buyer has chosen.

# %%
options = offered.body["options"]
for option in options:
    display, kinds = option["amount"]["display"], [action["type"] for action in option["actions"]]
    price = units(option["amount"]["value"], display["decimals"])
    print(price, display["assetSymbol"], "on", display["networkName"], "by", *kinds)

option = next(option for option in options if option["actions"][0]["type"] == "build")

# %% [markdown]
# ## The wallet fetches the chosen option
#
# The response contains only `walletRpc` actions. `params` is JSON within JSON: pass it on
# unchanged.

# %%
fetch_request = {"optionId": option["id"], "data": option["actions"][0]["data"]["data"]}
fetched = await lab.rest("wallet", "POST", f"{side}/fetch", fetch_request)
actions = fetched.body["actions"]
print(fetched)

# %% [markdown]
# ## A long poll without a change
#
# Nothing changes while the buyer decides. After `maxPollMs` the response has the current status;
# `pollInMs` suggests when to poll again without `maxPollMs`.

# %%
began = time.perf_counter()
unchanged = await lab.rest("wallet", "GET", f"{side}/status?maxPollMs=500")
held_s = time.perf_counter() - began
print(f"after {held_s:.2f} s:", unchanged)

# %% [markdown]
# ## Two pollers
#
# The merchant and the wallet poll again after each response, until `isFinal`. Both loops run beside
# the confirm.


# %%
async def until_final(who, path):
    answers = []
    while not answers or not answers[-1]["isFinal"]:
        answer = await lab.rest(who, "GET", f"{path}?maxPollMs={HOLD_MS}")
        answers.append(answer.body)
    return answers


waiting = asyncio.gather(
    until_final("merchant", f"/v1/payments/{payment_id}/status"),
    until_final("wallet", f"{side}/status"),
)

# %% [markdown]
# ## The wallet executes the actions, and confirms
#
# The wallet sends one output per action, in their order. This response waits until the payment is
# final, not only until the next change: a wallet that waits for it needs no other poll.

# %%
outputs = await asyncio.to_thread(wallet.execute, actions, option=option)
results = [{"type": "walletRpc", "data": [output]} for output in outputs]
paying = {"optionId": option["id"], "results": results}
print(json.dumps(paying, indent=2))

# %%
began = time.perf_counter()
confirmed = await lab.rest("wallet", "POST", f"{side}/confirm?maxPollMs={HOLD_MS}", paying)
print(f"after {time.perf_counter() - began:.2f} s:", confirmed)

# %% [markdown]
# A confirm can be repeated: an equal confirm returns the status, and pays nothing twice.

# %%
repeated = await lab.rest("wallet", "POST", f"{side}/confirm", paying)
print(repeated.status, repeated.body["status"], repeated.body["info"]["txId"])

# %% [markdown]
# ## Responses to the pollers
#
# One status per response. A poll returns the newest status; a late poll misses those in between.

# %%
answers_by_caller = dict(zip(("merchant", "wallet"), await waiting, strict=True))
for who, answers in answers_by_caller.items():
    print(f"{who:9}", *[answer["status"] for answer in answers], sep="  ")

# %% [markdown]
# ## Events of the stream
#
# The stream ends after the final status. `version` counts the changes: a gap is a status that
# changed before it could be sent.

# %%
changes = [first] + [data async for _, data in events]
for change in changes:
    print(json.dumps(change))

# %% [markdown]
# ## The merchant's record
#
# `settlement` has the transaction that paid, `buyer` the account.

# %%
detail = await lab.rest("merchant", "GET", f"/v1/payments/{payment_id}")
print(detail)

# %% [markdown]
# ## The totals reconcile

# %%
steps = ["requires_action", "processing", "succeeded"]
assert changes == sorted(changes, key=lambda change: change["version"])
assert [steps[change["version"]] for change in changes] == [change["status"] for change in changes]
assert unchanged.body["status"] == "requires_action"
assert held_s >= 0.5
finals = [confirmed.body, repeated.body, *(answers[-1] for answers in answers_by_caller.values())]
assert all(final["status"] == "succeeded" for final in finals)
paid = detail.body["settlement"]["successful"]
assert {final["info"]["txId"] for final in finals} == {paid["txId"]}
assert paid["amount"]["value"] == option["amount"]["value"]
signature_statuses = await lab.chain("getSignatureStatuses", [paid["txId"]], solana=True)
assert signature_statuses["value"][0]["confirmationStatus"] == "finalized"
await lab.close()
