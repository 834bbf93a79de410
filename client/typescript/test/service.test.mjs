// Tests against a running Florin.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { FlorinError, verifyWebhook } from "florin-client";
import { createWalletClient, http, parseAbi } from "viem";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { forward, listen, openFlorin, openGateway, readBody } from "./florin.mjs";

const chain = process.env.FLORIN_EVM_CHAIN;
const amount = { unit: "iso4217/USD", value: "1250" };

test("a payment is created, read, listed and cancelled", async () => {
  const florin = openFlorin();
  const referenceId = `order-${randomUUID()}`;
  const created = await Promise.all([1, 2, 3].map(() => florin.payments.create({ amount, referenceId })));
  const [payment] = created;
  assert.match(payment.gatewayUrl, /\/pay_\w+$/);
  const detail = await florin.payments.get(payment.paymentId);
  assert.deepEqual([detail.referenceId, detail.amount.value, detail.status], [referenceId, "1250", "requires_action"]);
  const pages = [];
  for await (const page of florin.payments.list({ referenceId, limit: 2 }).pages()) pages.push(page.data.length);
  assert.deepEqual(pages, [2, 1]);
  const listed = [];
  for await (const row of florin.payments.list({ referenceId, limit: 1 })) listed.push(row.paymentId);
  assert.deepEqual(listed.sort(), created.map((each) => each.paymentId).sort());
  assert.equal((await florin.payments.cancel(payment.paymentId)).status, "cancelled");
  assert.equal((await florin.payments.waitFinal(payment.paymentId)).status, "cancelled");
  const open = [];
  const filter = { referenceId, status: ["requires_action", "processing"] };
  for await (const row of florin.payments.list(filter)) open.push(row.paymentId);
  assert.equal(open.length, 2);
});

test("a refusal has code, status, request id and faults", async () => {
  const error = await openFlorin().payments.create({ amount: { ...amount, value: "12.50" } }).catch((e) => e);
  assert.ok(error instanceof FlorinError);
  assert.deepEqual([error.code, error.status, error.issues[0].field], ["params_validation", 400, "amount.value"]);
  assert.match(error.requestId, /.{8}/);
  assert.match(error.idempotencyKey, /^[0-9a-f]{32}$/);
  await assert.rejects(openFlorin({ apiKey: "fl_test_wrong" }).payments.get("pay_x"), { code: "invalid_api_key" });
  await assert.rejects(openFlorin().payments.get("pay_unknown"), { code: "payment_not_found", status: 404 });
});

test("a viem wallet pays, webhooks arrive and verify, and a part is refunded", async (t) => {
  const florin = openFlorin();
  const events = [];
  let secret = "";
  const url = await listen(t, async (request, response) => {
    const body = await readBody(request);
    try {
      events.push(await verifyWebhook({ body, headers: request.headers, secret: ["whsec_b3RoZXI=", secret] }));
      response.writeHead(204).end();
    } catch {
      // answered before the secret was known: Florin sends it again
      response.writeHead(400).end();
    }
  });
  const merchantId = process.env.FLORIN_MERCHANT_ID;
  const endpoint = await florin.webhookEndpoints.create({ url: `${url}/hooks`, merchantId, events: ["*"] });
  secret = endpoint.secret;
  t.after(() => florin.webhookEndpoints.delete(endpoint.endpoint.id));

  const { paymentId } = await florin.payments.create({ amount });
  const account = privateKeyToAccount(generatePrivateKey());
  const gateway = openGateway();
  assert.equal((await gateway.getPayment(paymentId)).isFinal, false);
  const { options } = await gateway.getOptions(paymentId, { accounts: [`${chain}:${account.address}`] });
  const signs = (option) => option.actions.every((action) => action.data.method === "eth_signTypedData_v4");
  const option = options.find(signs);
  const outputs = [];
  for (const { params } of await gateway.getExecutableActions(paymentId, option)) {
    assert.equal(params[0].toLowerCase(), account.address.toLowerCase());
    outputs.push(await account.signTypedData(JSON.parse(params[1])));
  }
  const status = await gateway.confirm(paymentId, { optionId: option.id, outputs });
  assert.ok(["processing", "succeeded"].includes(status.status));
  const final = await gateway.waitFinal(paymentId, { timeoutMs: 60_000 });
  assert.equal(final.status, "succeeded");
  assert.match(final.info.txId, /^0x\w{64}$/);

  const part = { unit: "iso4217/USD", value: "500" };
  const refund = await florin.refunds.create({ paymentId, amount: part, reason: "a broken cup" });
  assert.equal(refund.paymentAmount.value, "500");
  const tooMuch = { paymentId, amount: { ...part, value: "751" } };
  await assert.rejects(florin.refunds.create(tooMuch), { code: "already_refunded", status: 409 });
  const detail = await florin.payments.get(paymentId);
  assert.equal(detail.refunded.paymentRefundable.value, "750");

  const own = () => events.filter((event) => event.data.payment_id === paymentId).map((event) => event.type);
  const isSent = (type) => own().includes(type);
  while (!isSent("payment.succeeded") || !isSent("refund.succeeded")) await new Promise((r) => setTimeout(r, 20));
  assert.ok(isSent("payment.created") && isSent("payment.processing"));
  const attempts = await florin.webhookEndpoints.listAttempts(endpoint.endpoint.id, { paymentId });
  assert.ok(attempts.attempts.some((attempt) => attempt.succeeded));
});

test("an address is opened, is the same again, and receives the payment", async () => {
  const florin = openFlorin();
  const gateway = openGateway();
  const { paymentId } = await florin.payments.create({ amount });
  const asset = process.env.FLORIN_EVM_ASSET;
  const opened = await gateway.openAddresses(paymentId, { assets: [asset] });
  assert.equal(opened.paymentId, paymentId);
  const [address] = opened.addresses;
  assert.match(address.address, /^0x[0-9a-fA-F]{40}$/);
  assert.deepEqual([address.asset, address.received, address.missing], [asset, "0", address.route.value]);
  assert.deepEqual(await gateway.openAddresses(paymentId, { assets: [asset] }), opened);
  const unknown = { assets: [`${chain}/erc20:0x${"ee".repeat(20)}`] };
  await assert.rejects(gateway.openAddresses(paymentId, unknown), { code: "invalid_params", status: 400 });

  const client = createWalletClient({
    account: privateKeyToAccount(generatePrivateKey()),
    transport: http(process.env.FLORIN_EVM_RPC_URL),
  });
  // the test chain gives money to the accounts that ask for options
  await gateway.getOptions(paymentId, { accounts: [`${chain}:${client.account.address}`] });
  const abi = parseAbi(["function transfer(address to, uint256 value)"]);
  const args = [address.address, BigInt(address.missing)];
  await client.writeContract({ address: address.route.token, abi, functionName: "transfer", args, chain: null });
  assert.equal((await gateway.waitFinal(paymentId, { timeoutMs: 60_000 })).status, "succeeded");
  const detail = await florin.payments.get(paymentId);
  assert.deepEqual(detail.deposits.map((deposit) => deposit.amount), [address.missing]);
});

test("webhook endpoints are listed, changed and rotated", async (t) => {
  const { webhookEndpoints } = openFlorin();
  const path = `/${randomUUID()}`;
  const url = (await listen(t, (_, response) => response.writeHead(204).end())) + path;
  const { endpoint, secret } = await webhookEndpoints.create({ url });
  const listed = [];
  for await (const each of webhookEndpoints.list()) listed.push(each.id);
  assert.ok(listed.includes(endpoint.id));
  assert.equal((await webhookEndpoints.update(endpoint.id, { paused: true })).status, "paused");
  assert.equal((await webhookEndpoints.get(endpoint.id)).url, url);
  assert.notEqual((await webhookEndpoints.rotateSecret(endpoint.id)).secret, secret);
  assert.equal((await webhookEndpoints.delete(endpoint.id)).deleted, true);
  await assert.rejects(webhookEndpoints.get(endpoint.id), { status: 404 });
});

test("a stream resumes after a lost connection, and repeats no state", async (t) => {
  const florin = openFlorin();
  const { paymentId } = await florin.payments.create({ amount });
  const lastIds = [];
  let first;
  const url = await listen(t, async (request, response) => {
    lastIds.push(request.headers["last-event-id"]);
    first ??= response;
    const stream = await forward(request);
    response.on("close", () => stream.destroy());
    response.writeHead(stream.statusCode, stream.headers);
    stream.pipe(response);
  });
  const seen = [];
  const retries = { firstDelayMs: 1 };
  for await (const update of openFlorin({ url, retries }).payments.watch(paymentId)) {
    seen.push([update.version, update.status]);
    // the first connection breaks after its first event
    first.destroy();
    if (update.version === 0) await florin.sandbox.simulate(paymentId, "succeeded");
  }
  assert.deepEqual(seen, [[0, "requires_action"], [1, "succeeded"]]);
  assert.deepEqual(lastIds, [undefined, "0"]);
  const again = [];
  for await (const update of florin.payments.watch(paymentId, { afterVersion: 1 })) again.push(update);
  assert.deepEqual(again, []);
});

test("a retry after a 503 has the same key, and creates one payment", async (t) => {
  const keys = [];
  const url = await listen(t, async (request, response) => {
    keys.push(request.headers["idempotency-key"]);
    const answer = await forward(request, await readBody(request));
    const body = await readBody(answer);
    // Florin executed the first request, and its response is lost
    if (keys.length === 1) response.writeHead(503, { "Retry-After": "0" }).end("<html>");
    else response.writeHead(answer.statusCode, answer.headers).end(body);
  });
  const referenceId = `order-${randomUUID()}`;
  const payment = await openFlorin({ url }).payments.create({ amount, referenceId });
  assert.equal(keys.length, 2);
  assert.equal(new Set(keys).size, 1);
  const listed = [];
  for await (const row of openFlorin().payments.list({ referenceId })) listed.push(row.paymentId);
  assert.deepEqual(listed, [payment.paymentId]);
});

test("calls and streams end when their signal is aborted", async () => {
  const florin = openFlorin();
  const { paymentId } = await florin.payments.create({ amount });
  const stop = new AbortController();
  const reason = new Error("the buyer left");
  const poll = florin.payments.getStatus(paymentId, { maxPollMs: 20_000, signal: stop.signal });
  const updates = florin.payments.watch(paymentId, { signal: stop.signal });
  assert.equal((await updates.next()).value.version, 0);
  const next = updates.next();
  stop.abort(reason);
  await Promise.all([assert.rejects(poll, reason), assert.rejects(next, reason)]);
  await assert.rejects(florin.payments.get(paymentId, { signal: stop.signal }), reason);
  await assert.rejects(florin.payments.waitFinal(paymentId, { timeoutMs: 50 }), { name: "TimeoutError" });
});
