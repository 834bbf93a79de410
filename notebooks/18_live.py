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
# # Which payments are happening right now?
#
# You will see payments as they happen, like in a merchant's back office:
#
# - each new payment is found and followed by its stream,
# - a board that is redrawn with every received change, while a handful of buyers pay,
# - how long each payment was in each status.

# %% tags=["parameters"]
PAYMENTS = 6
APART_S = 0.4  # time between two buyers
LOOK_S = 0.2  # time between two polls for new payments

# %%
import asyncio
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from charts import COLOURS, axes, use_style
from florin.v1.payment_pb2 import PaymentStatus
from IPython.display import Pretty, display
from lab import start

use_style()
lab = await start()

# %% [markdown]
# ## The watcher
#
# A list shows which payments exist, a stream shows the changes of one payment. The stream starts
# with the current status and sends the newest status after each change. Earlier and short-lived
# statuses are left out.
#
# | Figure | Meaning |
# | - | - |
# | Created, processing, … | payments that have this status now |
# | Time in a status | from the message with the status to the message with the next |
# | Left out | payments that were created before the board was started |

# %%
began, recent = time.perf_counter(), datetime.now(UTC) - timedelta(minutes=5)
seen, following = {}, {}
old = {row.payment_id async for row in lab.merchant.list_merchant_payments(start=recent)}


async def follow(payment_id):
    async for update in lab.merchant.watch_payment(payment_id):
        status = PaymentStatus.Name(update.payment.status).removeprefix("PAYMENT_STATUS_")
        at = time.perf_counter() - began
        seen.setdefault(payment_id, []).append((at, update.version, status.lower()))
        board.update(Pretty(drawn()))


# %%
async def look():
    async for row in lab.merchant.list_merchant_payments(start=recent):
        if row.payment_id not in {*old, *following}:
            following[row.payment_id] = asyncio.create_task(follow(row.payment_id))


async def keep_looking():
    while True:
        await look()
        await asyncio.sleep(LOOK_S)


# %% [markdown]
# ## The board
#
# One line per payment: its statuses so far, with the seconds since the board was started.


# %%
def drawn():
    now = Counter(states[-1][2] for states in seen.values())
    counts = ", ".join(f"{count} {status}" for status, count in sorted(now.items()))
    lines = [f"{len(seen)} payments: {counts or 'none yet'}"]
    for payment_id, states in seen.items():
        history = " → ".join(f"{status} {at:.1f}" for at, _, status in states)
        lines.append(f"…{payment_id[-6:]}  {history}")
    return "\n".join(lines)


# %%
async def buyer(n):
    await asyncio.sleep(n * APART_S)
    reference = f"live-{n}"
    created = await lab.merchant.create_payment(
        amount=("iso4217/USD", 500 + 100 * n), reference_id=reference
    )
    if n == PAYMENTS - 1:
        # this buyer cancels
        await lab.merchant.cancel_payment(created.payment_id)
    else:
        await lab.pay(created.payment_id, lab.wallet())
    return created.payment_id


# %% [markdown]
# ## Watch
#
# The board below changes while this cell runs. Look at how the last payment ends differently from
# the others.

# %%
board = display(Pretty("waiting"), display_id=True)
looking = asyncio.create_task(keep_looking())
ours = await asyncio.gather(*(buyer(n) for n in range(PAYMENTS)))
looking.cancel()
await look()
await asyncio.wait_for(asyncio.gather(*(following[payment_id] for payment_id in ours)), 30)
print(f"{sum(map(len, seen.values()))} changes of {len(seen)} payments were received")

# %% [markdown]
# ## Time in each status
#
# A row is a payment, in the order of creation; a mark is its end. Look for a bar that is much
# longer than the others of its color: that payment waited for its buyer, or for its chain.

# %%
chart = axes("Payments, state by state", "Seconds since the start", "Payment")
looks = {"requires_action": (COLOURS[4], "//"), "processing": (COLOURS[0], "")}
for row, payment_id in enumerate(ours):
    states = seen[payment_id]
    for (at, _, status), (until, *_) in pairwise(states):
        colour, hatch = looks[status]
        look = {"color": colour, "hatch": hatch, "edgecolor": "white", "height": 0.6}
        chart.barh(row, until - at, left=at, label=status, **look)
    end = "o" if states[-1][2] == "succeeded" else "x"
    chart.plot(states[-1][0], row, end, color="black", label=states[-1][2])
named = dict(zip(*reversed(chart.get_legend_handles_labels()), strict=True))
chart.set_yticks(range(len(ours)), [f"…{payment_id[-6:]}" for payment_id in ours])
chart.invert_yaxis()
chart.legend(named.values(), named.keys(), loc="upper left", bbox_to_anchor=(1.0, 1.0))
chart.margins(0.05)

# %%
ended = Counter(seen[payment_id][-1][2] for payment_id in ours)
print(", ".join(f"{count} {status}" for status, count in ended.items()))
waits = [
    (until - at, payment_id)
    for payment_id in ours
    for (at, _, status), (until, *_) in pairwise(seen[payment_id])
    if status == "processing"
]
if waits:
    print(f"They waited for finality for {min(waits)[0]:.1f} to {max(waits)[0]:.1f} s.")

# %% [markdown]
# ## The totals reconcile
#
# The last statuses of the streams equal the server's current statuses.

# %%
answers = [await lab.merchant.get_payment_status(payment_id) for payment_id in ours]
for payment_id in set(following) - set(ours):
    following[payment_id].cancel()
await lab.close()
last = [seen[payment_id][-1][2] for payment_id in ours]
assert [f"PAYMENT_STATUS_{status.upper()}" for status in last] == [
    PaymentStatus.Name(answer.status) for answer in answers
]
assert ended == {"succeeded": PAYMENTS - 1, "cancelled": 1}
for payment_id in ours:
    versions = [version for _, version, _ in seen[payment_id]]
    assert versions == sorted(set(versions))
