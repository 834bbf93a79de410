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
# # How does a platform run its merchants and read their payments?
#
# You will see a partner's back end at work:
#
# - a merchant created once, although the call is sent three times,
# - its settlement destination, changed while a wallet has an older option,
# - how a caller selects the version of the API that it was written for,
# - lists read page by page, while new payments arrive.

# %% tags=["parameters"]
ORDERS = 9  # payments in the lists
PAGE = 4  # rows per page

# %%
import secrets

import pandas as pd
from eth_account import Account
from florin.v1.account_pb2 import SIMULATED_OUTCOME_FAILED, SIMULATED_OUTCOME_SUCCEEDED
from florin.v1.listing_pb2 import PAYMENT_SORT_AMOUNT, SORT_DIRECTION_ASC
from florin.v1.payment_pb2 import PAYMENT_STATUS_SUCCEEDED
from florin_client import ConflictError
from lab import start, units

lab = await start(embedded={"block_interval_s": 0.2})

# %% [markdown]
# ## A merchant, created once
#
# A response can get lost, so a back end repeats the call with the same idempotency key. The second
# response equals the first, byte for byte, and a header marks it as a replay. The same key works
# over gRPC.

# %%
key = f"merchant-{secrets.token_hex(8)}"
shop = {"merchantName": "Tea House", "merchantEmail": "owner@tea-house.example"}
path, headers = "/v1/merchants", {"Idempotency-Key": key}
calls = [await lab.rest("merchant", "POST", path, shop, headers) for _ in range(2)]
by_grpc = await lab.admin.create_merchant(
    merchant_name=shop["merchantName"], merchant_email=shop["merchantEmail"], idempotency_key=key
)
for call in calls:
    print(call.status, call.body["merchant"]["id"], call.headers.get("Idempotent-Replayed", "new"))
print("gRPC", by_grpc.merchant.id)
tea = by_grpc.merchant.id

# %% [markdown]
# A different request with the same key is a conflict, and has no effect: it is a mistake of the
# caller.

# %%
try:
    await lab.admin.create_merchant(
        merchant_name="Cake House", merchant_email=shop["merchantEmail"], idempotency_key=key
    )
except ConflictError as error:
    conflict = error
print(conflict.code, conflict.http_status, dict(conflict.details))

# %% [markdown]
# ## Settlement destinations
#
# One account per asset. Without one, the operator owes the merchant its money; accounts of the
# operator's own wallets are refused.

# %%
asset, chain_id = lab.env["FLORIN_EVM_ASSET"], lab.env["FLORIN_EVM_CHAIN"]
first, second = (Account.create().address for _ in range(2))
response = await lab.admin.create_crypto_settlements(
    tea, destinations={asset: f"{chain_id}:{first}"}
)
(place,) = response.settlements
pd.Series({"id": place.id, "asset": place.asset, "destination": place.destination}).to_frame("")

# %% [markdown]
# ## A change does not affect existing options
#
# A wallet has an option when the destination changes. Its signature contains the old destination,
# so that payment still goes there; the next payment goes to the new destination. Both balances are
# read from the chain.

# %%
shown, buyer = {"merchant_id": tea}, lab.wallet()
amount, accounts = ("iso4217/USD", 1250), buyer.accounts(chain_id)


async def offered(payment_id):
    return (await lab.gateway.get_payment_options(payment_id, accounts=accounts)).options[0]


async def pay(payment_id, option):
    outputs = buyer.execute(option.actions, option=option)
    await lab.gateway.confirm_payment(payment_id, option_id=option.id, outputs=outputs)
    await lab.gateway.wait_final(payment_id, timeout=60)


# %%
older = await lab.merchant.create_payment(amount=amount, **shown)
offer = await offered(older.payment_id)
await lab.admin.update_crypto_settlement(tea, place.id, destination=f"{chain_id}:{second}")
await pay(older.payment_id, offer)
newer = await lab.merchant.create_payment(amount=amount, **shown)
next_offer = await offered(newer.payment_id)
await pay(newer.payment_id, next_offer)

got, display = [await lab.balance(address) for address in (first, second)], offer.amount.display
for name, held in zip(("old destination", "new destination"), got, strict=True):
    print(f"{name:16}", units(held, display.decimals), display.asset_symbol)

# %% [markdown]
# ## Versions of the API
#
# A version is a date. A caller that sends none gets the version that its account is pinned to: the
# newest version when the account was created. So nothing changes for a back end until it requests a
# newer version.

# %%
versions = (await lab.rest("anonymous", "GET", "/versions")).body
answers = {}
for version in ("", versions["stable"][-1], "2020-01-01", "tomorrow"):
    headers = {"Pay-Version": version} if version else {}
    answers[version or "(none)"] = await lab.rest("merchant", "GET", "/v1/merchants", None, headers)
print(versions)
pd.DataFrame(
    {"Pay-Version": version, "status": answer.status, "code": answer.body.get("code", "")}
    for version, answer in answers.items()
)

# %% [markdown]
# ## Orders to list
#
# | | |
# |-|-|
# | payments | every payment of the filter, with any status |
# | revenue | requested amounts of *succeeded* payments, by currency; refunds are not subtracted |
# | customers | accounts that paid or pay; payments with a simulated outcome have none |
#
# The payments get their outcomes by simulation: two of three succeed.

# %%
ids = []
for number in range(ORDERS):
    order = await lab.merchant.create_payment(
        amount=("iso4217/USD", 500 + 100 * number), reference_id=f"table-{number % 3}", **shown
    )
    outcome = SIMULATED_OUTCOME_SUCCEEDED if number % 3 else SIMULATED_OUTCOME_FAILED
    await lab.admin.simulate_payment(order.payment_id, outcome=outcome)
    ids.append(order.payment_id)

# %% [markdown]
# ## Page by page, while payments arrive
#
# The newest payments come first. A page's `nextCursor` marks the start of the next page. Between
# two pages a new payment is created: paging by number would show a row twice here.

# %%
path, cursor, seen = f"/v1/merchants/payments?limit={PAGE}", "", []
while cursor is not None:
    page = await lab.rest("merchant", "GET", path + cursor, None, {"Merchant-Id": tea})
    rows = [row["paymentId"] for row in page.body["data"]]
    print(len(rows), "rows, in total", page.body["stats"]["totalTransactions"])
    seen += rows
    cursor = page.body["nextCursor"]
    cursor = cursor and f"&cursor={cursor}"
    late = await lab.merchant.create_payment(amount=amount, reference_id="meanwhile", **shown)

# %% [markdown]
# A cursor is valid only for its own filter and order; with others it is refused, so that it never
# returns wrong rows.

# %%
first_page = await lab.rest("merchant", "GET", path, None, {"Merchant-Id": tea})
turned = f"{path}&sortDir=asc&cursor={first_page.body['nextCursor']}"
misused = await lab.rest("merchant", "GET", turned, None, {"Merchant-Id": tea})
print(misused.status, misused.body["code"], misused.body["issues"])

# %% [markdown]
# ## Filters, order and totals
#
# The client fetches further pages as needed; its `pages()` have the totals. Totals cover the whole
# filter, not one page.

# %%
listing = lab.merchant.list_merchant_payments(
    status=[PAYMENT_STATUS_SUCCEEDED],
    reference_id="table-",
    sort_by=PAYMENT_SORT_AMOUNT,
    sort_dir=SORT_DIRECTION_ASC,
    limit=PAGE,
    **shown,
)
pages = [page async for page in listing.pages()]
table = pd.DataFrame(
    {
        "reference": row.reference_id,
        "amount": units(row.fiat_amount.value, row.fiat_amount.display.decimals),
        "page": number,
    }
    for number, page in enumerate(pages, 1)
    for row in page.data
)
stats = pages[0].stats
(revenue,) = stats.total_revenue
print(stats.total_transactions, "payments,", units(revenue.value, 2), revenue.currency)
table

# %% [markdown]
# ## A merchant is deleted
#
# It is hidden and accepts no new payments. Its past payments stay in the partner's list.

# %%
await lab.admin.delete_merchant(tea)
listed_ids = [merchant.id async for merchant in lab.admin.list_merchants()]
refused = await lab.rest(
    "merchant",
    "POST",
    "/v1/payments",
    {"amount": {"unit": "iso4217/USD", "value": "1250"}},
    {"Merchant-Id": tea},
)
print("listed:", tea in listed_ids, "| a new payment:", refused.status, refused.body["code"])
everything = [row async for row in lab.merchant.list_payments(merchant_ids=[tea])]

# %% [markdown]
# ## The totals reconcile

# %%
assert len({call.body["merchant"]["id"] for call in calls} | {tea}) == 1
assert [call.headers.get("Idempotent-Replayed") for call in calls] == [None, "true"]
assert (conflict.code, conflict.details["reason"]) == ("idempotency_conflict", "different_body")
assert got == [int(offer.amount.value), int(next_offer.amount.value)]
codes = [answer.body.get("code") for answer in answers.values()]
assert codes == [None, None, "unknown_api_version", "invalid_api_version"]
# newest first, each once, and no payment that was created while the pages were read
assert seen == [*reversed(ids), newer.payment_id, older.payment_id]
assert misused.body["code"] == "invalid_params"
assert table["amount"].is_monotonic_increasing
assert len(table) == stats.total_transactions == ORDERS - len(range(0, ORDERS, 3))
assert table["amount"].sum() == units(revenue.value, 2)
assert tea not in listed_ids
assert refused.status == 404
pages_read = -(-len(seen) // PAGE)
assert len(everything) == len(seen) + pages_read
await lab.close()
