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
# You will see every call of a payment, with the JSON as it travels:
#
# - a merchant creates it and is told of changes, by a long poll and by a stream of events,
# - a wallet asks for options, fetches a `build` action, executes it and confirms,
# - answers that are held until there is something to tell.

# %% tags=["parameters"]
PRICE = "1250"  # minor units: 12.50 USD
HOLD_MS = 20_000  # how long an answer may be held

# %%
import asyncio
import json
import time

from lab import start, units

lab = await start()

# %% [markdown]
# ## The calls
#
# | Who | Call | For |
# |-|-|-|
# | merchant | `POST /v1/payments` | a payment's id and its link |
# | merchant | `GET /v1/payments/{id}/status?maxPollMs=…` | where it stands, held for a change |
# | merchant | `GET /v1/payments/{id}/events` | that when it has changed, as server-sent events |
# | merchant | `GET /v1/payments/{id}` | everything that is known of it |
# | wallet | `GET /v1/gateway/payment/{id}` | what is to be paid, and to whom |
# | wallet | `POST /v1/gateway/payment/{id}/options` | what its accounts can pay with |
# | wallet | `POST /v1/gateway/payment/{id}/fetch` | the call that a `build` action stands for |
# | wallet | `POST /v1/gateway/payment/{id}/confirm?maxPollMs=…` | to pay; held until the end |
# | wallet | `GET /v1/gateway/payment/{id}/status?maxPollMs=…` | the same as the merchant's |
#
# A merchant sends `Api-Key` and `Merchant-Id`, a wallet `App-Id` and `Client-Id`.

# %% [markdown]
# ## The merchant creates a payment
#
# `expiresAt` is in Unix seconds: nobody can confirm the payment from then on.

# %%
order = {"amount": {"unit": "iso4217/USD", "value": PRICE}, "referenceId": "notebook-01"}
created = await lab.rest("merchant", "POST", "/v1/payments", order)
payment_id = created.body["paymentId"]
print(created)

# %% [markdown]
# ## The merchant listens
#
# The stream begins with the state now. `version` counts the changes, and is the event's id: whoever
# comes back with it in `Last-Event-ID` is told only what is newer. It is read to its end below.

# %%
events = lab.events("merchant", f"/v1/payments/{payment_id}/events")
name, first = await anext(events)
print("event:", name)
print("data:", json.dumps(first))

# %% [markdown]
# ## The wallet reads what is to be paid

# %%
side = f"/v1/gateway/payment/{payment_id}"
print(await lab.rest("wallet", "GET", side))

# %% [markdown]
# ## It asks what its accounts can pay with
#
# The wallet names all accounts that it has, and gets an option for each asset of which one holds
# enough. (A test chain funds every account that asks.) An option is a price in one asset, of one
# account, with the actions that pay it.

# %%
wallet = lab.wallet()
solana = lab.env["FLORIN_SOLANA_CHAIN"]
accounts = wallet.accounts(lab.env["FLORIN_EVM_CHAIN"], solana)
offered = await lab.rest("wallet", "POST", f"{side}/options", {"accounts": accounts})
print(offered)

# %% [markdown]
# ## Two types of actions
#
# `walletRpc` is a call that the wallet executes as it is. `build` stands for one that would grow
# old while the buyer thinks: it is fetched when the buyer has chosen.

# %%
options = offered.body["options"]
for one in options:
    display, kinds = one["amount"]["display"], [action["type"] for action in one["actions"]]
    price = units(one["amount"]["value"], display["decimals"])
    print(price, display["assetSymbol"], "on", display["networkName"], "by", *kinds)

option = next(one for one in options if one["actions"][0]["type"] == "build")

# %% [markdown]
# ## The chosen one is fetched
#
# The answer holds `walletRpc` actions only. `params` is JSON within JSON: hand it on as it is.

# %%
asked = {"optionId": option["id"], "data": option["actions"][0]["data"]["data"]}
fetched = await lab.rest("wallet", "POST", f"{side}/fetch", asked)
actions = fetched.body["actions"]
print(fetched)

# %% [markdown]
# ## A held answer that has nothing to tell
#
# Nothing changes while the buyer thinks. When `maxPollMs` is over the status is told as it is;
# `pollInMs` says when it is worth to ask again for whoever does not want to be held.

# %%
began = time.perf_counter()
unchanged = await lab.rest("wallet", "GET", f"{side}/status?maxPollMs=500")
held_s = time.perf_counter() - began
print(f"held for {held_s:.2f} s:", unchanged)

# %% [markdown]
# ## Two who wait
#
# The merchant and the wallet ask again each time they are answered, until `isFinal`. Both loops run
# beside the confirmation.


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
# One output for each action, in their order. This answer is held until the payment is final, not
# only until the next change: a wallet that waits for it needs no other poll.

# %%
outputs = await asyncio.to_thread(wallet.execute, actions, option=option)
results = [{"type": "walletRpc", "data": [output]} for output in outputs]
paying = {"optionId": option["id"], "results": results}
print(json.dumps(paying, indent=2))

# %%
began = time.perf_counter()
confirmed = await lab.rest("wallet", "POST", f"{side}/confirm?maxPollMs={HOLD_MS}", paying)
print(f"held for {time.perf_counter() - began:.2f} s:", confirmed)

# %% [markdown]
# A confirmation may be repeated: the same one is answered with the status, and pays nothing twice.

# %%
repeated = await lab.rest("wallet", "POST", f"{side}/confirm", paying)
print(repeated.status, repeated.body["status"], repeated.body["info"]["txId"])

# %% [markdown]
# ## What the two were told
#
# One state for each answer. A poll tells the newest one; who comes back late misses those between.

# %%
told = dict(zip(("merchant", "wallet"), await waiting, strict=True))
for who, answers in told.items():
    print(f"{who:9}", *[answer["status"] for answer in answers], sep="  ")

# %% [markdown]
# ## What the stream told
#
# It ends by itself after the final state. `version` counts the changes: a gap would mean that a
# state was over before it could be told.

# %%
changes = [first] + [data async for _, data in events]
for change in changes:
    print(json.dumps(change))

# %% [markdown]
# ## What the merchant keeps
#
# `settlement` names the transaction that paid, `buyer` the account.

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
finals = [confirmed.body, repeated.body, *(answers[-1] for answers in told.values())]
assert all(final["status"] == "succeeded" for final in finals)
paid = detail.body["settlement"]["successful"]
assert {final["info"]["txId"] for final in finals} == {paid["txId"]}
assert paid["amount"]["value"] == option["amount"]["value"]
found = await lab.chain("getSignatureStatuses", [paid["txId"]], solana=True)
assert found["value"][0]["confirmationStatus"] == "finalized"
await lab.close()
