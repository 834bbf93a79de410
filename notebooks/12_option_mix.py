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
# # Which option do buyers choose, and what does it cost the operator?
#
# You will see:
#
# - offered options beside chosen options, by method and asset,
# - the cost of a payment by each method: gas, and rent of accounts on Solana,
# - how the gas per payment falls when more payments share a transaction,
# - the amount from which a fee covers the gas.

# %% tags=["parameters"]
SIZES = (1, 2, 5, 12, 30)  # payments that wait for the relayer together
FEE_BASIS_POINTS = 50  # fee of the operator for each of these

# %%
import asyncio

import numpy as np
import pandas as pd
from charts import COLOURS, axes, draw_shares, use_style
from data import load
from florin.v1.system_pb2 import (
    ListExecutorsRequest,
    PauseExecutorRequest,
    ResumeExecutorRequest,
)
from lab import start, units

use_style()
TABLES = ("payments", "options", "transactions", "transaction_items", "ledger")
data = load(*TABLES)
print(data.source)

# %% [markdown]
# ## Definitions
#
# | Figure | Numerator | Denominator | Left out |
# | - | - | - | - |
# | Offered | payments with the option | payments with options | |
# | Chosen | payments that chose it | payments for which it was offered | |
# | Cost of a payment | gas and rent booked for its transactions | payments in them | |
# | Overhead | gas and rent of transactions that settle nothing | | |
# | Batch size | payments of a transaction | | other transactions |
# | Gas of a payment | gas used by a transaction | its batch size | other transactions |
# | Break-even | gas of a payment, in dollars | share that the operator keeps | fixed fees |
#
# Costs are those of the ledger: 15_reconciliation compares them with the chains. Transactions that
# a buyer's wallet sends itself (`direct`) cost the operator nothing. Native coins of different
# chains are not added up.

# %%
options = data["options"].copy()
symbols = {asset: data.get_symbol(asset) for asset in options.asset.unique()}
options["label"] = options.method + ", " + options.asset.map(symbols)
seen = options.groupby("label").payment_id.nunique()
chosen = options[options.chosen].groupby("label").payment_id.nunique()
mix = pd.DataFrame({"offered": seen, "chosen": chosen}).fillna(0).astype(int)
mix = mix.sort_values("chosen", ascending=False)
payment_count, bound = options.payment_id.nunique(), options[options.chosen].payment_id.nunique()
print(f"{payment_count:,} payments had options, {bound:,} chose an option")
mix

# %% [markdown]
# ## Options that buyers choose
#
# Look at how far apart the bars are. They do not add up to 100 %: each is a share of the payments
# with that option. Error bars are 95 %.

# %%
chart = axes("Chosen where offered", "Share of payments with the option", "", data.source)
draw_shares(chart, {label: (row.chosen, row.offered) for label, row in mix.iterrows()})

# %%
first = mix.index[0]
print(f"Most buyers chose {first}: {mix.chosen.iloc[0]:,} of {bound:,} who chose an option.")
several = options.groupby("payment_id").label.nunique().reindex(options.payment_id.unique())
print(
    f"{(several > 1).sum():,} of {payment_count:,} had more than one kind of option to choose from."
)

# %% [markdown]
# ## Costs
#
# Every transaction of Florin has a journal of its gas, and of rent if it opened accounts. Both are
# shared evenly among its payments; failed transactions count too.

# %%
ledger = data["ledger"]
spent = ledger[ledger.kind == "gas"].copy()
spent["tx_id"] = spent.journal.str.split(":").str[1]
signs = np.where(spent.credit.str.startswith("expense:"), -1, 1)
spent["minor"] = spent.amount_minor * signs
spent["what"] = spent.debit.where(signs > 0, spent.credit).str.removeprefix("expense:")
items = data["transaction_items"]
costs = spent.pivot_table("minor", ["tx_id", "asset"], "what", "sum", fill_value=0).reset_index()
costs = costs.reindex(columns=["tx_id", "asset", "gas", "rent"], fill_value=0)
costs["size"] = costs.tx_id.map(items.groupby("tx_id").payment_id.count()).fillna(0).astype(int)
print(f"{len(costs):,} transactions were paid for; {(costs['size'] > 0).sum():,} settled payments")

# %%
method = options[options.chosen].set_index("payment_id").method
of_payment = items.dropna(subset=["payment_id"]).merge(costs, on="tx_id")
of_payment["each"] = (of_payment.gas + of_payment.rent) / of_payment["size"]
of_payment["method"] = of_payment.payment_id.map(method)
total = of_payment.groupby(["payment_id", "method", "asset"]).each.sum().reset_index()
coins = (total.each / total.asset.map(lambda asset: 10 ** (18 if "eip155" in asset else 9))).astype(
    float
)
by_method = coins.groupby([total.method, total.asset]).agg(["size", "min", "median", "max"])
by_method.round(9)

# %% [markdown]
# The sums below are whole native coins, by chain: gas and rent, and their part for other
# transactions, such as payouts and the opening of accounts. Rent is not lost: it is returned when
# an account is closed.

# %%
for asset, some in costs.groupby("asset"):
    scale = 18 if "eip155" in asset else 9
    gas, rent = (units(some[what].sum(), scale).normalize() for what in ("gas", "rent"))
    aside = units(some.gas[some["size"] == 0].sum() + some.rent[some["size"] == 0].sum(), scale)
    name = data.get_symbol(asset)
    print(f"{name}: gas {gas:f}, rent {rent:f}; of it overhead {aside.normalize():f}")
paid = data["payments"][data["payments"].status == "succeeded"].payment_id
paid_options = options[options.chosen & options.payment_id.isin(paid)]
print(
    f"Fees were charged on {(paid_options.fee_minor != 0).sum():,} of {len(paid_options):,}",
    "payments.",
)

# %% [markdown]
# ## Payments that wait together
#
# On EVM chains, Florin settles all waiting payments at once, in one transaction. Payments wait
# together when many arrive at the same moment, or after a pause of the relayer. Here the notebook
# pauses the relayer of its own Florin, many buyers confirm, and the notebook resumes it. On Solana
# each payment is a separate transaction.

# %%
NAMES = ("guard", "address", "app", "failure")
free = {f"{name}_per_minute": 0 for name in NAMES}
lab = await start(beside=True, fee_basis_points=FEE_BASIS_POINTS, limits=free)
chain_id = lab.env["FLORIN_EVM_CHAIN"]
executors = (await lab.operator(ListExecutorsRequest())).executors
senders = [executor.id for executor in executors if executor.id.startswith(chain_id)]


async def signed(currency):
    """Return a payment whose buyer has signed, and approved if needed, but not confirmed."""
    payment = await lab.merchant.create_payment(amount=(f"iso4217/{currency}", 1250))
    wallet = lab.wallet()
    accounts = wallet.accounts(chain_id)
    offered = await lab.gateway.get_payment_options(payment.payment_id, accounts=accounts)
    option = next(option for option in offered.options if "/erc20:" in option.amount.unit)
    outputs = await asyncio.to_thread(wallet.execute, option.actions, option=option)
    # an unmined approval would keep its payment out of the shared transaction
    for approval in outputs[:-1]:
        for _ in range(600):
            if await lab.chain("eth_getTransactionReceipt", approval):
                break
            await asyncio.sleep(0.1)
    return payment.payment_id, option.id, outputs


# %%
async def together(size, currency):
    """Confirm several payments while the relayer is paused; return their final statuses."""
    waiting = await asyncio.gather(*(signed(currency) for _ in range(size)))
    for sender in senders:
        await lab.operator(PauseExecutorRequest(executor_id=sender))
    calls = [
        lab.gateway.confirm_payment(payment_id, option_id=option_id, outputs=outputs)
        for payment_id, option_id, outputs in waiting
    ]
    await asyncio.gather(*calls)
    for sender in senders:
        await lab.operator(ResumeExecutorRequest(executor_id=sender))
    return [await lab.merchant.wait_final(payment_id, timeout=60) for payment_id, *_ in waiting]


# %% [markdown]
# Dollars are paid by EIP-3009 and euros by Permit2. The first payment of each creates the balances
# of merchant and operator, which takes more gas, and is left out.

# %%
ends = []
for currency in ("USD", "EUR"):
    await together(1, currency)
    for size in SIZES:
        ends += [status.info.tx_id for status in await together(size, currency)]
batches = load(*TABLES, home=lab.env["FLORIN_HOME"])
receipts = {tx_hash: await lab.chain("eth_getTransactionReceipt", tx_hash) for tx_hash in set(ends)}
await lab.close()
print(f"{len(ends):,} payments waited, and were sent in {len(receipts):,} transactions")

# %%
runs = batches["transactions"].merge(batches["transaction_items"], on="tx_id")
runs = runs[runs.tx_hash.isin(receipts)]
bound_to = batches["options"][batches["options"].chosen].set_index("payment_id").method
runs["method"] = runs.payment_id.map(bound_to)
runs = runs.groupby("tx_hash").agg(size=("n", "count"), method=("method", "first"))
runs["gas"] = [int(receipts[tx_hash]["gasUsed"], 16) for tx_hash in runs.index]
gas_booked = batches["ledger"].query("debit == 'expense:gas'").set_index("tx_hash").amount_minor
runs["wei"] = gas_booked.groupby(level=0).sum()
runs["each"] = runs.gas / runs["size"]
runs = runs.sort_values(["method", "size"])
runs.reset_index(drop=True)

# %% [markdown]
# Look at the initial slope of the curves, and at where they become flat: the dashed lines are the
# gas of a payment itself, however many payments share its transaction.

# %%
chart = axes(
    "Gas of a payment", "Payments in the transaction", "Gas for each", f"{len(ends)} payments"
)
fits = {}
for n, (method, some) in enumerate(runs.groupby("method")):
    look = {"marker": "os"[n % 2], "color": COLOURS[n], "linestyle": "none"}
    chart.plot(some["size"], some.each, label=method, **look)
    own, fixed = np.polyfit(some["size"], some.gas, 1)
    fits[method] = fixed, own
    sizes = np.linspace(1, runs["size"].max(), 100)
    chart.plot(sizes, own + fixed / sizes, color=COLOURS[n], linewidth=1)
    chart.axhline(own, color=COLOURS[n], linewidth=1, linestyle="--")
chart.set_ylim(0, None)
chart.legend(loc="upper right")
chart.margins(0.05)

# %%
for method, (fixed, own) in fits.items():
    some = runs[runs.method == method]
    less = 1 - some.each.iloc[-1] / some.each.iloc[0]
    # some bytes of a signature are zero, and each of these is a little cheaper
    about = f"about {round(fixed, -3):,.0f} gas for the transaction, {round(own, -3):,.0f} for each"
    print(f"{method}: {about} payment in it;")
    print(
        f"  {some['size'].iloc[-1]} together take {less:.0%} less each than {some['size'].iloc[0]}."
    )

# %% [markdown]
# ## The amount from which a fee covers the gas
#
# The price of the native coin is the median of the quotes in the tables above; gas has the price
# paid here. Look at how the amount falls with the size of a batch.

# %%
quotes = options[options.asset.str.contains("/slip44:60")].merge(data["payments"], on="payment_id")
quotes = quotes[quotes.unit == "iso4217/USD"]
dollars = (quotes.requested / quotes.price).astype(float).median()
runs["cost"] = (runs.wei / runs["size"]).astype(float) / 1e18 * dollars
runs["break_even"] = runs.cost / (FEE_BASIS_POINTS / 10_000)
priced_runs = runs.dropna(subset=["cost"])
for row in priced_runs.itertuples():
    cost_text = (
        f"{row.cost:.4f} dollars of gas each, a fee of {FEE_BASIS_POINTS / 100:g} % covers it"
    )
    print(
        f"{row.method:8} {row.size:>3} together: {cost_text} from {row.break_even:,.2f} dollars on"
    )
print(
    f"A coin is {dollars:,.2f} dollars here."
    if len(priced_runs)
    else "No quote has the coin's price."
)

# %% [markdown]
# ## The totals reconcile

# %%
assert (mix.chosen <= mix.offered).all()
assert mix.chosen.sum() == bound == options.chosen.sum()
posted = spent[spent.asset.isin(costs.asset)].minor.sum()
assert costs.gas.sum() + costs.rent.sum() == posted
assert runs["size"].sum() == len(ends) == 2 * sum(SIZES)
# the costs in the ledger are those of the chain
for tx_hash, row in runs.iterrows():
    assert row.wei == row.gas * int(receipts[tx_hash]["effectiveGasPrice"], 16)
# and the operator charged its fee on each payment, rounded up
fees = batches["options"][batches["options"].chosen]
for row in fees.itertuples():
    assert row.fee_minor == -(-row.price_minor * FEE_BASIS_POINTS // 10_000)
assert runs["size"].max() > 1
