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
# # Which data must a buyer give before paying, and how is it stored?
#
# You will see data requested from buyers above an amount, and submitted in two ways:
#
# - inline: the wallet knows its user and sends the data,
# - by the hosted form, which a wallet opens in a web view, and can prefill,
# - the data stored about each buyer, its protection, and its retention.

# %% tags=["parameters"]
FROM = 100_000  # minor units: from 1,000.00 USD on, buyers must give data
KEPT_DAYS = 30  # retention of the data

# %%
import asyncio
import base64
import json
import re
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import pandas as pd
from florin.v1.customer_pb2 import CustomerDataSource, EraseCustomerRequest, ExportCustomerRequest
from florin.v1.payment_pb2 import PAYMENT_STATUS_SUCCEEDED
from florin_client import InvalidRequestError
from lab import start

# %% [markdown]
# The operator's settings decide when buyers must give data: `[capture]` in `florin.toml`. This
# notebook always starts its own Florin with the settings below.

# %%
capture_settings = {"enabled": True, "from_amount": {"USD": FROM}, "retention_days": KEPT_DAYS}
lab = await start(own=True, capture=capture_settings)
chain_id = lab.env["FLORIN_EVM_CHAIN"]

# %% [markdown]
# ## From an amount on
#
# Two payments, one minor unit apart. An option that needs data has `collect_data`, and a single
# action of type `build` instead of the actions to sign.


# %%
async def offer(wallet, minor=FROM):
    payment = await lab.merchant.create_payment(amount=("iso4217/USD", minor))
    account = wallet.account(chain_id)
    offered = await lab.gateway.get_payment_options(payment.payment_id, accounts=[account])
    return payment.payment_id, offered.options[0]


ada = lab.wallet()
below = await offer(ada, FROM - 1)
payment_id, option = await offer(ada)
for name, offered_option in (("below", below[1]), ("from there on", option)):
    print(
        f"{name:14}",
        offered_option.actions[0].WhichOneof("kind"),
        offered_option.HasField("collect_data"),
    )

# %% [markdown]
# ## The requested data
#
# The response describes it twice: as a JSON schema, and as a list of fields for wallets that draw
# the form themselves. Country and address come in pairs, of birth or of residence; the schema
# requires one pair.

# %%
schema = json.loads(option.collect_data.schema_json)
rules = {name: dict(rule) for name, rule in schema["properties"].items()}
pd.DataFrame(
    {
        "field": field.id,
        "name": field.name,
        "required": field.required,
        "type": rules[field.id].pop("type"),
        "rules": ", ".join(f"{name} {rule}" for name, rule in rules[field.id].items()),
    }
    for field in option.collect_data.fields
)

# %% [markdown]
# ## Without the data there is nothing to sign
#
# Fetching the action is refused, with the address of the form.

# %%
try:
    await lab.gateway.executable_actions(payment_id, option)
except InvalidRequestError as error:
    refusal = error
print(refusal.code, "|", refusal.message, "|", refusal.details["reason"])
assert refusal.details["url"] == option.collect_data.url

# %% [markdown]
# ## Inline: the wallet sends the data
#
# The data is part of the fetch call, by the keys of the schema. After that it is a payment like any
# other.

# %%
ada_data = {
    "fullName": "Ada Example",
    "dob": "1987-06-05",
    "pobCountry": "DE",
    "pobAddress": "Cologne",
    "tosConfirmed": True,
}


async def pay(wallet, payment_id, option, data=None):
    actions = await lab.gateway.executable_actions(payment_id, option, collected_data=data)
    outputs = await asyncio.to_thread(wallet.execute, actions, option=option)
    await lab.gateway.confirm_payment(payment_id, option_id=option.id, outputs=outputs)
    return (await lab.merchant.wait_final(payment_id, timeout=60)).status


inline = await pay(ada, payment_id, option, ada_data)
print("succeeded:", inline == PAYMENT_STATUS_SUCCEEDED)

# %% [markdown]
# ## Invalid data is reported by member
#
# Each fault names its field, so that a wallet can mark it.

# %%
bob = lab.wallet()
form_payment, form_option = await offer(bob)
try:
    wrong = {**ada_data, "dob": "5 June", "pobCountry": "Germany", "tosConfirmed": False}
    await lab.gateway.executable_actions(form_payment, form_option, collected_data=wrong)
except InvalidRequestError as error:
    faults = {issue.field: issue.message for issue in error.issues}
faults

# %% [markdown]
# ## The form, prefilled by the wallet
#
# `prefill` is base64 of a JSON object by the same keys, added to the form's address. The buyer sees
# these values and can change them; terms cannot be confirmed in advance.

# %%
prefill_values = {"fullName": "Bob Example", "dob": "1990-12-31", "tosConfirmed": True}
prefill = base64.urlsafe_b64encode(json.dumps(prefill_values).encode()).decode()
address = form_option.collect_data.url.removeprefix(lab.env["FLORIN_BASE_URL"])
page = await lab.rest("anonymous", "GET", f"{address}&{urlencode({'prefill': prefill})}")
inputs = re.findall(r"<(?:input|select)[^>]*>", page.body)
form_values = {}
for tag in inputs:
    attributes = dict(re.findall(r'(\w+)="([^"]*)"', tag))
    ticked = " checked" in tag if attributes.get("type") == "checkbox" else None
    form_values[attributes.get("name")] = attributes.get("value", "") if ticked is None else ticked
pd.Series(form_values, name="value").drop("token").to_frame()

# %% [markdown]
# ## The form is submitted
#
# A browser posts it; programs can do the same with JSON. The token in the address is the only
# credential, and it is valid for this payment and these accounts only.

# %%
(token,) = parse_qs(urlsplit(address).query)["t"]
bob_data = {**ada_data, "fullName": prefill_values["fullName"], "dob": prefill_values["dob"]}
handed_in = await lab.rest("anonymous", "POST", "/collect/", {"token": token, "data": bob_data})
other_data = {**bob_data, "fullName": "Other Person"}
again = await lab.rest("anonymous", "POST", "/collect/", {"token": token, "data": other_data})
by_form = await pay(bob, form_payment, form_option)
print("submitted:", handed_in.status, handed_in.body)
print("other data with the same form:", again.status, again.body["code"])
print("succeeded:", by_form == PAYMENT_STATUS_SUCCEEDED)

# %% [markdown]
# ## A known buyer is not asked again
#
# The signature of the payment has proven that the account is the buyer's. So the same wallet app
# can pay with the same account again without the data; for other accounts the data is required.

# %%
ask_again = {
    name: (await offer(wallet))[1].HasField("collect_data")
    for name, wallet in (("Ada", ada), ("Bob", bob), ("a stranger", lab.wallet()))
}
ask_again

# %% [markdown]
# ## The stored data
#
# | | |
# |-|-|
# | payments | payments that the account was offered or has paid |
# | source | `form`, or `wallet` if the wallet sent it |
# | proven | its sender confirmed the payment with a signature of the account |
# | kept until | time of submission, plus `retention_days` |
#
# The operator can export it, for a buyer who requests it (`florin customers export`).


# %%
async def export(wallet):
    return await lab.operator(ExportCustomerRequest(account=wallet.account(chain_id)))


exports = {"Ada": await export(ada), "Bob": await export(bob)}
rows = [
    (name, len(customer.payments), *customer.collected_data) for name, customer in exports.items()
]
table = pd.DataFrame(
    {
        "who": name,
        "payments": payments,
        "source": CustomerDataSource.Name(data.source).rpartition("_")[2].lower(),
        "full name": json.loads(data.data_json)["fullName"],
        "proven": data.proven,
        "days": (data.kept_until.ToDatetime() - data.collected_at.ToDatetime()).days,
    }
    for name, payments, data in rows
)
table

# %% [markdown]
# ## Its protection
#
# The data is encrypted, with a key in a different file than the database. So no file of the
# database contains the buyers' words.

# %%
words = [
    word.encode()
    for buyer_data in (ada_data, bob_data)
    for word in (buyer_data["fullName"], buyer_data["pobAddress"])
]
files = sorted(Path(lab.env["FLORIN_HOME"]).glob("florin.db*"))
in_clear = {file.name: any(word in file.read_bytes() for word in words) for file in files}
in_clear

# %% [markdown]
# ## Its retention
#
# Bob wants his data deleted now (`florin customers erase`). Ada's data is deleted when its
# retention ends: the notebook moves the sandbox clock forward, and a worker deletes it.

# %%
erased = await lab.operator(EraseCustomerRequest(account=bob.account(chain_id)))
left = {"Ada": len((await export(ada)).collected_data)}
left["Bob"] = len((await export(bob)).collected_data)
await lab.admin.advance_test_clock(seconds=KEPT_DAYS * 86_400 + 3600)
later = await export(ada)
for _ in range(600):
    if not later.collected_data:
        break
    await asyncio.sleep(0.1)
    later = await export(ada)
print("after Bob's request:", left, "sets of data; payments kept:", erased.payments_kept)
print("after", KEPT_DAYS, "days, Ada:", len(later.collected_data))

# %% [markdown]
# ## The totals reconcile

# %%
assert not below[1].HasField("collect_data")
assert (refusal.code, refusal.details["reason"]) == ("params_validation", "ic_required")
assert set(faults) == {
    "collected_data_json.dob",
    "collected_data_json.pobCountry",
    "collected_data_json.tosConfirmed",
}
assert (form_values["fullName"], form_values["dob"]) == (
    prefill_values["fullName"],
    prefill_values["dob"],
)
assert form_values["tosConfirmed"] is False
assert (handed_in.status, again.status) == (200, 401)
assert inline == by_form == PAYMENT_STATUS_SUCCEEDED
assert ask_again == {"Ada": False, "Bob": False, "a stranger": True}
assert table["source"].tolist() == ["wallet", "form"]
assert table["proven"].all()
assert set(table["days"]) == {KEPT_DAYS}
assert not any(in_clear.values())
assert left == {"Ada": 1, "Bob": 0}
# payments that moved money stay, without any personal data
assert [payment.payer for payment in later.payments].count(True) == erased.payments_kept == 1
await lab.close()
