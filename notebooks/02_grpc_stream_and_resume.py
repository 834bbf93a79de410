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
# # What does a merchant miss when its connection is lost?
#
# States that are over, and never the newest one. You will see, over gRPC:
#
# - a payment's stream that one program leaves, and another takes up by its version,
# - a stream whose connection is cut under it, and that goes on by itself,
# - how to wait for the end only, with and without patience, and the stream of a refund.

# %% tags=["parameters"]
PRICE = "1250"  # minor units: 12.50 USD

# %%
import asyncio
import time
from contextlib import suppress

from florin.v1.payment_pb2 import PaymentStatus
from florin.v1.refund_pb2 import RefundStatus
from florin_client import AsyncClient, DeadlineError
from lab import start, units

lab = await start()
wallet = lab.wallet()

# %% [markdown]
# ## What a stream promises
#
# | | |
# |-|-|
# | first message | the state now; with `after_version`, only if it is newer |
# | each later one | a newer state; those that pass while nobody can be told are left out |
# | `version` | counts the changes of a payment, so that a gap tells how many were left out |
# | end | after the final state |
#
# `version` is all that a program has to keep.


# %%
def line(update):
    status = PaymentStatus.Name(update.payment.status).removeprefix("PAYMENT_STATUS_")
    return update.version, status.lower()


async def order(number):
    reference = f"notebook-02-{number}"
    made = await lab.merchant.create_payment(amount=("iso4217/USD", PRICE), reference_id=reference)
    return made.payment_id


# %% [markdown]
# ## One message
#
# This program reads the state now, notes the version, and leaves.

# %%
left_behind = await order(1)
async for update in lab.merchant.watch_payment(left_behind):
    noted = update.version
    print(update)
    break

# %% [markdown]
# ## Nobody listens, and the payment is paid

# %%
final = await lab.pay(left_behind, wallet)
print(PaymentStatus.Name(final.status), final.info.tx_id)

# %% [markdown]
# ## Another program takes it up
#
# It passes the version that was noted, and is told the newest state and nothing that was told
# before. The states between are over: whoever wants a history finds it in the table `events` of
# `florin export`.

# %%
caught_up = [line(u) async for u in lab.merchant.watch_payment(left_behind, after_version=noted)]
version, status = caught_up[-1]
print(version, status)
print(version - noted, "changes since, told:", len(caught_up))

# %% [markdown]
# ## A line that can be cut
#
# To lose a connection on purpose, the merchant's next client goes through a relay: it passes bytes
# on in both directions, and `cut` ends what is open, without a goodbye, as a broken network does.

# %%
host, port = lab.line()
lines = []


async def carry(reader, writer):
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
    writer.close()


async def relay(reader, writer):
    there, back = await asyncio.open_connection(host, port)
    lines.append((writer, back))
    await asyncio.gather(carry(reader, back), carry(there, writer))


# %%
def cut():
    for pair in lines:
        for end in pair:
            end.transport.abort()


server = await asyncio.start_server(relay, "127.0.0.1", 0)
own_host, own_port = server.sockets[0].getsockname()
client = AsyncClient(
    f"{own_host}:{own_port}",
    plaintext=True,
    api_key=lab.env["FLORIN_PARTNER_KEY"],
    merchant_id=lab.env["FLORIN_MERCHANT_ID"],
)

# %% [markdown]
# ## The line is cut in the middle of a stream
#
# Right after the first message the connection is gone, and the payment is paid before there is
# another one. The loop does not notice: the client connects again and passes the last version that
# it has told.

# %%
payment_id, told = await order(2), []
async for update in client.merchant.watch_payment(payment_id, timeout=60):
    told.append(line(update))
    print(*told[-1], f"on connection {len(lines)}")
    if len(told) == 1:
        cut()
        await lab.pay(payment_id, wallet)

# %% [markdown]
# ## Who waits for the end only
#
# `wait_final` reads the same stream and returns its last state. Without a `timeout` it waits as
# long as it takes; with one it gives up by an error that is a `TimeoutError`. Giving up changes
# nothing about the payment.

# %%
unpaid = await order(3)
began = time.perf_counter()
try:
    await client.merchant.wait_final(unpaid, timeout=0.5)
except DeadlineError as error:
    gave_up = isinstance(error, TimeoutError)
    print(f"after {time.perf_counter() - began:.1f} s:", type(error).__name__, error)

# %%
waiting = asyncio.create_task(client.merchant.wait_final(unpaid, timeout=60))
await lab.pay(unpaid, wallet)
patient = await waiting
print(PaymentStatus.Name(patient.status), patient.info.tx_id)

# %% [markdown]
# ## The money goes back
#
# A refund is a stream of its own. It has no versions: the first message is the state now, and the
# last one the final state. What was between may be over before anybody looks.

# %%
held = await lab.balance(wallet.evm.address)
asked = await client.merchant.create_refund(payment_id)
states = []
async for update in client.merchant.watch_refund(payment_id, timeout=60):
    states.append(RefundStatus.Name(update.refund.status))
    print(states[-1], update.refund.tx_id)

refund = update.refund

# %% [markdown]
# ## What the chain says
#
# Read from the chain, not from Florin.

# %%
returned = await lab.balance(wallet.evm.address) - held
decimals = refund.amount.display.decimals
print("the buyer has", units(returned, decimals), refund.amount.display.asset_symbol, "back")

# %% [markdown]
# ## The totals reconcile

# %%
steps = ["requires_action", "processing", "succeeded"]
assert all(steps[version] == status for version, status in caught_up + told)
assert caught_up[0][0] > noted
assert told == sorted(set(told))
assert caught_up[-1] == told[-1] == (2, "succeeded")
assert len(lines) > 1
assert gave_up
assert final.status == patient.status == PaymentStatus.PAYMENT_STATUS_SUCCEEDED
assert (states[-1], refund.refund_id) == ("REFUND_STATUS_SUCCEEDED", asked.refund_id)
receipt = await lab.chain("eth_getTransactionReceipt", refund.tx_id)
assert (receipt["status"], returned) == ("0x1", int(refund.amount.value))
await client.close()
server.close()
await lab.close()
