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
# # How does a buyer pay who can only send?
#
# You will see a payment to an address of its own, as from any wallet or exchange:
#
# - the address, and how a buyer's program computes it again,
# - a transfer that is too small, and a second sender that sends the rest,
# - what the merchant sees: each deposit with its sender, and where the money went.

# %% tags=["parameters"]
PRICE = 1250  # minor units: 12.50 USD
FIRST = 5_000_000  # minor units of the token that the first transfer sends: 5.00

# %%
import asyncio
import copy

from florin.v1.payment_pb2 import PAYMENT_STATUS_REQUIRES_ACTION, PAYMENT_STATUS_SUCCEEDED
from florin_client.wallet import FORWARDER, JsonRpc, WalletError, plan_transfer
from florin_server.rails.networks.embedded import EMBEDDED_EVM
from lab import start, units

lab = await start()
chain_id, asset = lab.env["FLORIN_EVM_CHAIN"], lab.env["FLORIN_EVM_ASSET"]
token = asset.rpartition(":")[2]
nodes = JsonRpc({chain_id: lab.env["FLORIN_EVM_RPC_URL"]})

# %% [markdown]
# ## The buyer requests an address
#
# The page of a payment does this when a buyer chooses to send. The address has no key: a contract,
# the forwarder, passes on what arrives there as the `route` says, and only so.

# %%
created = await lab.merchant.create_payment(
    amount=("iso4217/USD", PRICE), reference_id="notebook-20"
)
payment_id = created.payment_id
path = f"/v1/gateway/payment/{payment_id}/addresses"
answer = await lab.rest("wallet", "POST", path, {"assets": [asset]})
print(answer)

# %% [markdown]
# ## The address follows from its route
#
# The address is a hash of the whole route. A program that knows the forwarder computes it again,
# and needs to trust no answer. `plan_transfer` does this: it refuses an address that differs.

# %%
(address,) = answer.body["addresses"]
forwarder = EMBEDDED_EVM.forwarder if chain_id == EMBEDDED_EVM.chain_id else FORWARDER
phone, exchange = lab.wallet(), lab.wallet()
plan = plan_transfer(address, phone.account(chain_id), forwarder=forwarder)
print(*plan.describe(lambda value: f"{units(value, 6)} tUSD"))

# %% [markdown]
# A server that lies about the receiver, the amount or the address:

# %%
LIES = {
    "receiver": ("route", "dest", phone.evm.address),
    "home": ("route", "home", phone.evm.address),
    "amount": ("amount", "value", "1"),
    "address": (None, "address", phone.evm.address),
}
refused = {}
for name, (part, member, value) in LIES.items():
    lie = copy.deepcopy(address)
    (lie if part is None else lie[part])[member] = value
    try:
        plan_transfer(lie, phone.account(chain_id), forwarder=forwarder)
    except WalletError as error:
        refused[name] = str(error)
        print(f"{name:<9}", error)

# %% [markdown]
# ## A transfer that is too small
#
# A transfer of a token is one call of it: `transfer(address,uint256)`. The sender knows nothing of
# Florin. (A test chain funds every account that requests options.)

# %%
accounts = [phone.account(chain_id), exchange.account(chain_id)]
await lab.gateway.get_payment_options(payment_id, accounts=accounts)


async def send(wallet, value):
    receiver = address["address"][2:].lower()
    data = f"0xa9059cbb{receiver.rjust(64, '0')}{value:064x}"
    call = wallet.evm.transact(chain_id, to=bytes.fromhex(token[2:]), data=data)
    return await asyncio.to_thread(nodes.run, call)


async def arrived(value):
    """Return the payment once at least so much has arrived."""
    while True:
        payment = await lab.gateway.get_payment(payment_id)
        if int(payment.addresses[0].received) >= value:
            return payment
        await asyncio.sleep(0.1)


first = await send(phone, FIRST)
short = await arrived(FIRST)
(at_address,) = short.addresses
print("received", units(at_address.received, 6), "missing", units(at_address.missing, 6))
print("the payment still waits:", short.status == PAYMENT_STATUS_REQUIRES_ACTION)

# %% [markdown]
# ## Another account sends the rest
#
# Parts add up, from any number of senders. The plan of the same address now sends what is missing.

# %%
opened = await lab.gateway.open_addresses(payment_id, assets=[asset])
(same,) = opened.addresses
rest = plan_transfer(same, exchange.account(chain_id), forwarder=forwarder)
(second,) = await asyncio.to_thread(exchange.execute_plan, rest)
final = await lab.gateway.wait_final(payment_id, timeout=60)
print("succeeded by", final.info.tx_id)

# %% [markdown]
# ## What the merchant sees
#
# The transaction of the payment is the forwarder's: it moved everything at once. `buyer` would be
# the account that a refund goes to. Here it is unset, because two accounts paid: a buyer names an
# account for that with `refundAccount`, before the address exists.

# %%
detail = await lab.merchant.get_payment(payment_id)
for deposit in detail.deposits:
    print(units(deposit.amount, 6), "from", deposit.sender, "by", deposit.tx_id)
print("payers", *detail.payers)

# %%
price = int(address["route"]["value"])
left = await lab.balance(address["address"])
code = await lab.chain("eth_getCode", address["address"], "latest")
print("left at the address:", left)
print("code at the address, which closes it:", code)

# %% [markdown]
# ## Proof

# %%
senders = {wallet.account(chain_id).lower() for wallet in (phone, exchange)}
assert refused.keys() == LIES.keys()
assert (at_address.received, at_address.missing) == (str(FIRST), str(price - FIRST))
assert short.status == PAYMENT_STATUS_REQUIRES_ACTION
assert (same.address, rest.terms.amount) == (address["address"], price - FIRST)
assert final.status == detail.status == PAYMENT_STATUS_SUCCEEDED
assert {deposit.tx_id for deposit in detail.deposits} == {first, second}
assert {deposit.sender.lower() for deposit in detail.deposits} == senders
assert {payer.lower() for payer in detail.payers} == senders
assert sum(int(deposit.amount) for deposit in detail.deposits) == price
assert all(deposit.is_final for deposit in detail.deposits)
assert not detail.HasField("buyer")
assert left == 0
assert code != "0x"
await lab.close()
