"""The examples, run as their users would: accepted and refused payments, and attempted fraud."""

from __future__ import annotations

import datetime as dt
import json
import sqlite3
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest
from florin.v1.account_pb2 import SIMULATED_OUTCOME_STALL, SIMULATED_OUTCOME_SUCCEEDED
from florin.v1.payment_pb2 import PAYMENT_STATUS_CANCELLED
from florin_client import Client
from florin_client.wallet import WalletError
from standardwebhooks import Webhook

from tests.support.examples import RunningExample, load_example, run_example

pytestmark = pytest.mark.long

TEA = 450
CHAIN, TOKEN = "eip155:31337", "0x" + "ab" * 20


@pytest.fixture(scope="module")
def florin(tmp_path_factory, forks):
    """Start a Florin that can reach this machine."""
    home = tmp_path_factory.mktemp("examples") / "home"
    local = '["127.0.0.0/8"]'
    with forks.start_lasting("up", home=home, FLORIN_WEBHOOKS__NETWORKS=local) as up:
        yield up


@pytest.fixture(scope="module")
def merchant(florin):
    """Return the merchant's own client, to inspect and to disturb an example's work."""
    env = florin.env
    with Client(
        env["FLORIN_GRPC_TARGET"],
        plaintext=True,
        api_key=env["FLORIN_PARTNER_KEY"],
        merchant_id=env["FLORIN_MERCHANT_ID"],
    ) as client:
        yield client


class Shop:
    """The example, the endpoint at which Florin notifies it, and its file."""

    def __init__(self, process, url, secret, file, merchant):
        self.process, self.url, self.secret = process, url, secret
        self.file, self.merchant = file, merchant

    def order(self):
        """Order tea; return the order's id, and the id of its payment."""
        status, text = post(self.url + "/orders", b'{"article": "tea"}')
        assert status == 201
        created = json.loads(text)
        return created["order"], urlsplit(created["pay"]).path.strip("/")

    def tell(self, payment_id, *, secret=None, at=None, event_id="evt_test", kind="succeeded"):
        """Send a signed webhook about a payment; return the status."""
        data = {"payment_id": payment_id}
        body = json.dumps({"id": event_id, "type": f"payment.{kind}", "data": data})
        at = at or dt.datetime.now(dt.UTC)
        signature = Webhook(secret or self.secret).sign(event_id, at, body)
        headers = {
            "webhook-id": event_id,
            "webhook-timestamp": str(int(at.timestamp())),
            "webhook-signature": signature,
        }
        return post(self.url + "/florin", body.encode(), headers)[0]

    def pay(self, payment_id, **options):
        self.merchant.admin.simulate_payment(
            payment_id, outcome=SIMULATED_OUTCOME_SUCCEEDED, **options
        )

    def change(self, statement, *values):
        with sqlite3.connect(self.file) as store:
            store.execute(statement, values)

    def shipped(self, order_id):
        with sqlite3.connect(self.file) as store:
            cursor = store.execute("SELECT shipped FROM orders WHERE id = ?", (order_id,))
            return bool(cursor.fetchone()[0])

    def reconciled(self, env):
        """Run the examples' reconcile job; return its result."""
        grace = {"GRACE_SECONDS": "0"}
        words = ("reconcile", str(self.file))
        return run_example(*words, env={**env, **grace}, cwd=self.file.parent)


def post(url, body, headers=()):
    request = urllib.request.Request(url, body, dict(headers), method="POST")
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read()


def stranger(merchant):
    """Return the id of a merchant of the same partner."""
    created_merchant = merchant.admin.create_merchant(
        merchant_name="Other", merchant_email="o@shop.example"
    )
    return created_merchant.merchant.id


@pytest.fixture(scope="module")
def shop(florin, merchant, tmp_path_factory):
    """Start the shop; only tests notify it, until its endpoint is resumed."""
    folder = tmp_path_factory.mktemp("shop")
    webhook_endpoint = merchant.webhook.create_webhook_endpoint(url="http://127.0.0.1:9/florin")
    env = {**florin.env, "WEBHOOK_SECRET": webhook_endpoint.secret, "SHOP_PORT": "0"}
    with RunningExample("shop", env=env, cwd=folder) as process:
        url = process.wait_output("http://").split()[-2]
        merchant.webhook.update_webhook_endpoint(
            webhook_endpoint.endpoint.id, url=url + "/florin", paused=True
        )
        shop = Shop(process, url, webhook_endpoint.secret, folder / "shop.db", merchant)
        shop.endpoint_id = webhook_endpoint.endpoint.id
        yield shop


def test_wallet_pays_a_link_and_the_shop_ships_after_the_webhook(shop, florin, merchant):
    order_id, payment_id = shop.order()
    link = f"{florin.env['FLORIN_BASE_URL']}/{payment_id}"
    paid = run_example("wallet", link, env=florin.env, cwd=shop.file.parent, input_text="y\n")
    assert paid.status == 0, paid
    assert "Corner Café asks for 4.50 USD" in paid.out
    try:
        merchant.webhook.update_webhook_endpoint(shop.endpoint_id, paused=False)
        shop.process.wait_output(f"ships tea for {order_id}")
    finally:
        merchant.webhook.update_webhook_endpoint(shop.endpoint_id, paused=True)
    assert order_id not in shop.reconciled(florin.env).out


def test_webhook_with_a_foreign_or_old_signature_is_refused(shop):
    order_id, payment_id = shop.order()
    shop.pay(payment_id)
    long_ago = dt.datetime.now(dt.UTC) - dt.timedelta(minutes=6)
    foreign = "whsec_" + "AAAA" * 11
    assert shop.tell(payment_id, secret=foreign) == 400
    assert shop.tell(payment_id, at=long_ago) == 400
    assert post(shop.url + "/florin", b'{"type": "payment.succeeded"}')[0] == 400
    assert not shop.shipped(order_id)


def test_duplicate_webhook_ships_once(shop):
    order_id, payment_id = shop.order()
    shop.pay(payment_id)
    # also at once, while the first is still being processed
    with ThreadPoolExecutor() as threads:
        futures = [
            threads.submit(shop.tell, payment_id, event_id=f"evt_{n % 2}_of_two") for n in range(6)
        ]
        assert {future.result() for future in futures} == {204}
    assert shop.tell(payment_id, event_id="evt_twice") == 204
    shop.process.wait_output(f"ships tea for {order_id}")
    shop.change("UPDATE orders SET shipped = 0 WHERE id = ?", order_id)
    # its id alone shows that it was done
    assert shop.tell(payment_id, event_id="evt_twice") == 204
    assert not shop.shipped(order_id)
    shop.change("UPDATE orders SET shipped = 1 WHERE id = ?", order_id)
    # another event of the same payment ships nothing again
    assert shop.tell(payment_id, event_id="evt_other") == 204
    other, second = shop.order()
    shop.pay(second)
    assert shop.tell(second, event_id="evt_last") == 204
    before = shop.process.output
    shop.process.wait_output(f"ships tea for {other}")
    assert order_id not in shop.process.output.removeprefix(before)


def test_succeeded_webhook_ships_only_after_get_payment_confirms_it(shop):
    order_id, payment_id = shop.order()
    assert shop.tell(payment_id, event_id="evt_early") == 503
    assert not shop.shipped(order_id)
    shop.pay(payment_id)
    # it was not recorded as done, and is delivered again
    assert shop.tell(payment_id, event_id="evt_early") == 204
    assert shop.shipped(order_id)


def test_another_merchants_payment_ships_nothing(shop, merchant):
    order_id, _ = shop.order()
    foreign = merchant.merchant.create_payment(
        amount=("iso4217/USD", TEA), reference_id=order_id, merchant_id=stranger(merchant)
    )
    shop.pay(foreign.payment_id)
    assert shop.tell(foreign.payment_id, event_id="evt_foreign") == 204
    assert not shop.shipped(order_id)


def test_another_payment_or_another_price_ships_nothing(shop, florin, merchant):
    order_id, payment_id = shop.order()
    cheap = merchant.merchant.create_payment(amount=("iso4217/USD", 1), reference_id=order_id)
    shop.pay(cheap.payment_id)
    assert shop.tell(cheap.payment_id, event_id="evt_cheap") == 204
    shop.change("UPDATE orders SET cents = 9900 WHERE id = ?", order_id)
    shop.pay(payment_id)
    assert shop.tell(payment_id, event_id="evt_price") == 204
    assert not shop.shipped(order_id)
    done = shop.reconciled(florin.env)
    assert done.status == 1
    assert f"{cheap.payment_id} is paid, but belongs to no order" in done.out
    assert f"{order_id}: paid by {payment_id}, but not shipped" in done.out
    assert "not for 9900 cents" in done.out


def test_unsold_article_is_refused(shop):
    for body in (b'{"article": "gold"}', b'{"article": ["tea"]}', b"[]", b"tea"):
        assert post(shop.url + "/orders", body)[0] == 400


def test_shipped_order_may_be_refunded_in_part_and_not_in_full(shop, florin, merchant):
    order_id, payment_id = shop.order()
    shop.pay(payment_id)
    assert shop.tell(payment_id, event_id=f"evt_{payment_id}") == 204
    assert shop.shipped(order_id)
    shares = merchant.merchant.get_payment(payment_id).amount
    part = (shares.unit, int(shares.value) // 3)
    merchant.merchant.create_refund(payment_id, amount=part)
    assert order_id not in shop.reconciled(florin.env).out
    left = merchant.merchant.get_payment(payment_id).refunded.payment_refundable
    merchant.merchant.create_refund(payment_id, amount=(left.unit, int(left.value)))
    done = shop.reconciled(florin.env)
    assert f"{order_id}: shipped, but {payment_id} is refunded" in done.out


def test_reconcile_reports_orders_that_differ_from_florin(shop, florin, tmp_path):
    done = run_example("reconcile", str(tmp_path / "none.db"), env=florin.env, cwd=tmp_path)
    assert (done.status, "Not compared: unable to open" in done.err) == (2, True)
    order_id, payment_id = shop.order()
    shop.change("UPDATE orders SET shipped = 1 WHERE id = ?", order_id)
    lost = "INSERT INTO orders VALUES ('shop-lost', 'tea', 450, 'pay_lost', 0)"
    shop.change(lost)
    done = shop.reconciled(florin.env)
    assert done.status == 1
    assert f"{order_id}: shipped, but {payment_id} is PAYMENT_STATUS_REQUIRES_ACTION" in done.out
    assert "shop-lost: payment pay_lost does not exist" in done.out
    # recent changes are left to the next run
    fresh = run_example("reconcile", str(shop.file), env=florin.env, cwd=tmp_path)
    assert order_id not in fresh.out


def test_reconcile_reports_success_for_a_matching_shop(florin, merchant, tmp_path):
    other = stranger(merchant)
    paid = merchant.merchant.create_payment(
        amount=("iso4217/USD", TEA), reference_id="shop-1", merchant_id=other
    )
    merchant.admin.simulate_payment(paid.payment_id, outcome=SIMULATED_OUTCOME_SUCCEEDED)
    file = tmp_path / "shop.db"
    with sqlite3.connect(file) as store:
        store.executescript(load_example("shop").TABLES)
        order = ("shop-1", "tea", TEA, paid.payment_id, 1)
        store.execute("INSERT INTO orders VALUES (?, ?, ?, ?, ?)", order)
    env = {**florin.env, "FLORIN_MERCHANT_ID": other, "GRACE_SECONDS": "0"}
    done = run_example("reconcile", str(file), env=env, cwd=tmp_path)
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("1 orders, 1 paid, of which ")


def test_reconcile_reports_missing_or_refunded_money():
    job = load_example("reconcile")
    row = job.PaymentRow(reference_id="shop-1", status=job.PAYMENT_STATUS_SUCCEEDED)
    row.fiat_amount.unit, row.fiat_amount.value = "iso4217/USD", "450"
    row.token_amount.value, row.fees.total.value = "4500000", "100000"
    row.settlement.settled, row.settlement.amount.value = True, "4400000"
    orders = [job.Order("shop-1", 450, "pay_1", True)]
    assert list(job.compare(orders, {"pay_1": row})) == []
    row.settlement.amount.value = "4399999"
    row.refunds.add().amount.value = "4500000"
    assert list(job.compare(orders, {"pay_1": row})) == [
        "shop-1: shipped, but pay_1 is refunded",
        "shop-1: of 4500000 less 100000 arrived 4399999",
    ]


def wallet_here(monkeypatch, env, answer="y"):
    """Load the wallet in this process, with its owner's answer."""
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("builtins.input", lambda _: answer)
    return load_example("wallet")


def sale(florin, tmp_path, amount="4.50", seconds="60"):
    env = {**florin.env, "SALE_SECONDS": seconds}
    return RunningExample("terminal", amount, env=env, cwd=tmp_path)


def test_a_wallet_pays_with_no_token_that_it_does_not_know(florin, merchant, monkeypatch):
    payment = merchant.merchant.create_payment(amount=("iso4217/USD", TEA))
    env = {**florin.env, "FLORIN_EVM_ASSET": f"{CHAIN}/erc20:{TOKEN}"}
    with pytest.raises(WalletError, match="pays for it"):
        wallet_here(monkeypatch, env).main(payment.gateway_url)


def test_a_code_is_shown_and_paid(florin, merchant, tmp_path, monkeypatch):
    with sale(florin, tmp_path) as terminal:
        link = terminal.wait_output("http://")
        assert terminal.output.count("\n") > 10  # the code
        with pytest.raises(WalletError, match="nothing was signed"):
            wallet_here(monkeypatch, florin.env, answer="n").main(link)
        payment_id = link.rpartition("/")[2]
        merchant.admin.simulate_payment(payment_id, outcome=SIMULATED_OUTCOME_SUCCEEDED)
        done = terminal.stop()
    assert (done.status, done.err) == (0, "")
    assert done.out.splitlines()[-1] == f"PAID {payment_id}"


def test_a_sale_that_takes_too_long_is_called_off(florin, merchant, tmp_path, monkeypatch):
    with sale(florin, tmp_path, seconds="1") as terminal:
        link = terminal.wait_output("http://")
        done = terminal.stop()
    payment_id = link.rpartition("/")[2]
    assert (done.status, done.out.splitlines()[-1]) == (1, f"NOT PAID {payment_id}")
    assert merchant.merchant.get_payment(payment_id).status == PAYMENT_STATUS_CANCELLED
    # a buyer who is too late pays nothing
    with pytest.raises(WalletError, match="already PAYMENT_STATUS_CANCELLED"):
        wallet_here(monkeypatch, florin.env).main(link)


def test_a_sale_that_is_being_paid_is_not_over(florin, merchant, tmp_path):
    with sale(florin, tmp_path, seconds="1") as terminal:
        payment_id = terminal.wait_output("http://").rpartition("/")[2]
        merchant.admin.simulate_payment(payment_id, outcome=SIMULATED_OUTCOME_STALL)
        terminal.wait_output("a wallet is paying: wait")
        merchant.admin.simulate_payment(payment_id, outcome=SIMULATED_OUTCOME_SUCCEEDED)
        done = terminal.stop()
    assert (done.status, done.out.splitlines()[-1]) == (0, f"PAID {payment_id}")


def test_invalid_amount_is_refused():
    terminal = load_example("terminal")
    assert [terminal.parse_cents(text) for text in ("4.50", "4", "0.01")] == [450, 400, 1]
    for text in ("", "tea", "-1", "0", "1.005", "nan", "inf"):
        with pytest.raises(ValueError, match="not an amount"):
            terminal.parse_cents(text)
