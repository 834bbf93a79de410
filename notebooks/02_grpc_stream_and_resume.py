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
# Past states, and never the newest one. You will see, over gRPC:
#
# - a payment's stream that one program leaves, and another resumes by version,
# - a stream that continues after its connection is cut,
# - how to wait for the final status only, with and without a timeout, and the stream of a refund.

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
# ## Guarantees of a stream
#
# | | |
# |-|-|
# | first message | the current status; with `after_version`, only if it is newer |
# | later messages | a newer status; short-lived statuses can be skipped |
# | `version` | counts the changes of a payment, so that a gap shows how many were skipped |
# | end | after the final status |
#
# A program must store only `version`.


# %%
def line(update):
    status = PaymentStatus.Name(update.payment.status).removeprefix("PAYMENT_STATUS_")
    return update.version, status.lower()


async def order(number):
    reference = f"notebook-02-{number}"
    payment = await lab.merchant.create_payment(
        amount=("iso4217/USD", PRICE), reference_id=reference
    )
    return payment.payment_id


# %% [markdown]
# ## One message
#
# This program reads the current status, stores the version, and leaves.

# %%
left_behind = await order(1)
async for update in lab.merchant.watch_payment(left_behind):
    noted = update.version
    print(update)
    break

# %% [markdown]
# ## The payment is paid without a listener

# %%
final = await lab.pay(left_behind, wallet)
print(PaymentStatus.Name(final.status), final.info.tx_id)

# %% [markdown]
# ## Another program resumes
#
# It passes the stored version, and receives only the newest status. The states in between are gone:
# for a history, read the table `events` of `florin export`.

# %%
caught_up = [line(u) async for u in lab.merchant.watch_payment(left_behind, after_version=noted)]
version, status = caught_up[-1]
print(version, status)
print(version - noted, "changes since, received:", len(caught_up))

# %% [markdown]
# ## A connection that can be cut
#
# To lose a connection on purpose, the merchant's next client connects through a relay. It forwards
# bytes in both directions, and `cut` ends open connections abruptly, like a broken network.

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
# ## The connection is cut in the middle of a stream
#
# Right after the first message the connection is cut, and the payment is paid before the next
# message. The loop does not notice: the client reconnects and passes the last version that it
# delivered.

# %%
payment_id, updates = await order(2), []
async for update in client.merchant.watch_payment(payment_id, timeout=60):
    updates.append(line(update))
    print(*updates[-1], f"on connection {len(lines)}")
    if len(updates) == 1:
        cut()
        await lab.pay(payment_id, wallet)

# %% [markdown]
# ## Wait for the final status only
#
# `wait_final` reads the same stream and returns its last status. Without a `timeout` it waits as
# long as needed; with a timeout it raises an error that is a `TimeoutError`. A timeout changes
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
# ## A refund
#
# A refund has its own stream, without versions: the first message is the current status, and the
# last message the final status. Statuses in between can be skipped.

# %%
held = await lab.balance(wallet.evm.address)
created_refund = await client.merchant.create_refund(payment_id)
states = []
async for update in client.merchant.watch_refund(payment_id, timeout=60):
    states.append(RefundStatus.Name(update.refund.status))
    print(states[-1], update.refund.tx_id)

refund = update.refund

# %% [markdown]
# ## Balances on the chain
#
# Read from the chain, not from Florin.

# %%
returned = await lab.balance(wallet.evm.address) - held
decimals = refund.amount.display.decimals
print("the buyer got", units(returned, decimals), refund.amount.display.asset_symbol, "back")

# %% [markdown]
# ## The totals reconcile

# %%
steps = ["requires_action", "processing", "succeeded"]
assert all(steps[version] == status for version, status in caught_up + updates)
assert caught_up[0][0] > noted
assert updates == sorted(set(updates))
assert caught_up[-1] == updates[-1] == (2, "succeeded")
assert len(lines) > 1
assert gave_up
assert final.status == patient.status == PaymentStatus.PAYMENT_STATUS_SUCCEEDED
assert (states[-1], refund.refund_id) == ("REFUND_STATUS_SUCCEEDED", created_refund.refund_id)
receipt = await lab.chain("eth_getTransactionReceipt", refund.tx_id)
assert (receipt["status"], returned) == ("0x1", int(refund.amount.value))
await client.close()
server.close()
await lab.close()
