// Tests without a server.
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { test } from "node:test";
import { Florin, FlorinGateway, verifyWebhook, WebhookVerificationError } from "florin-client";
import { parseEvents } from "../dist/events.js";
import { Backoff, resolveLimits } from "../dist/retries.js";

const amount = { unit: "iso4217/USD", value: "1250" };

/** Return a client whose requests get the given responses in order, and the requests. */
function openStub(responses, options = {}) {
  const requests = [];
  const fetch = async (url, init) => {
    requests.push({ url, ...init });
    const response = responses[Math.min(requests.length, responses.length) - 1];
    if (response instanceof Error) throw response;
    const [status, body, headers] = response;
    return new Response(JSON.stringify(body), { status, headers });
  };
  const retries = { firstDelayMs: 1, longestDelayMs: 2, patienceMs: 200 };
  const florin = new Florin({ url: "https://pay.example/base/", apiKey: "key", merchantId: "mrch_1", fetch, retries, ...options });
  return { florin, requests };
}

test("requests that had no effect, or have one effect, are repeated with the same key", async () => {
  const lost = new TypeError("fetch failed");
  const inFlight = [409, { code: "idempotency_conflict" }, { "Retry-After": "0" }];
  for (const failure of [lost, [429, {}], [502, "x"], [503, {}], [504, null], [408, {}], inFlight]) {
    const { florin, requests } = openStub([failure, failure, [201, { paymentId: "pay_1" }]]);
    assert.equal((await florin.payments.create({ amount })).paymentId, "pay_1");
    assert.equal(requests.length, 3);
    assert.equal(new Set(requests.map((each) => each.headers["Idempotency-Key"])).size, 1);
    assert.equal(requests[0].url, "https://pay.example/base/v1/payments");
    assert.equal(requests[0].redirect, "manual");
  }
});

test("refusals are not repeated", async () => {
  const refusals = [[400, { code: "params_validation" }], [401, {}], [404, {}], [409, { code: "idempotency_conflict" }], [500, {}], [302, null]];
  for (const refusal of refusals) {
    const { florin, requests } = openStub([refusal]);
    await assert.rejects(florin.payments.create({ amount }), { name: "FlorinError", status: refusal[0] });
    assert.equal(requests.length, 1);
  }
});

test("a call without a key and with an effect is repeated only after a rate limit", async () => {
  for (const failure of [new TypeError("fetch failed"), [503, {}]]) {
    const { florin, requests } = openStub([failure]);
    await assert.rejects(florin.webhookEndpoints.create({ url: "https://shop.example" }));
    assert.equal(requests.length, 1);
  }
  const { florin, requests } = openStub([[429, {}], [200, { secret: "whsec_eA==" }]]);
  assert.equal((await florin.webhookEndpoints.create({ url: "https://shop.example" })).secret, "whsec_eA==");
  assert.equal(requests.length, 2);
  assert.equal("Idempotency-Key" in requests[0].headers, false);
});

test("retries end with the patience, and an own key is sent", async () => {
  const { florin, requests } = openStub([[503, {}]], { retries: { patienceMs: 0 } });
  const call = florin.payments.create({ amount }, { idempotencyKey: "order-1" });
  await assert.rejects(call, { status: 503, idempotencyKey: "order-1" });
  assert.deepEqual(requests.map((each) => each.headers["Idempotency-Key"]), ["order-1"]);
});

test("a wait that the server asks for beyond the timeout ends the call", async () => {
  const { florin, requests } = openStub([[429, {}, { "Retry-After": "3600" }]], { retries: { patienceMs: 1e9 } });
  await assert.rejects(florin.payments.get("pay_1"), { status: 429, retryAfterMs: 3_600_000 });
  assert.equal(requests.length, 1);
});

test("delays grow, are never shorter than the server asks for, and have a limit", () => {
  const limits = resolveLimits();
  const backoff = new Backoff(limits, limits.patienceMs);
  for (const longest of [200, 400, 800, 1600, 3200, 5000, 5000]) {
    const delay = backoff.nextDelayMs(0);
    assert.ok(delay >= longest / 2 && delay <= longest, String(delay));
  }
  assert.equal(backoff.nextDelayMs(0, 9000), 9000);
  assert.equal(backoff.nextDelayMs(14_999), undefined);
  backoff.reset();
  assert.ok(backoff.nextDelayMs(15_000) <= 200);
});

test("an attempt without a response ends after its time", async () => {
  const fetch = (_, { signal }) =>
    new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  const { florin } = openStub([], { fetch, attemptTimeoutMs: 5, retries: { patienceMs: 0 } });
  await assert.rejects(florin.payments.create({ amount }), { name: "TimeoutError", code: "", status: 0 });
});

test("ids cannot change the path, and credentials need encryption", async () => {
  const { florin, requests } = openStub([[200, {}]]);
  for (const id of ["", ".", ".."]) assert.throws(() => florin.payments.get(id), TypeError);
  await florin.payments.get("../merchants?x#y");
  assert.equal(requests[0].url, "https://pay.example/base/v1/payments/..%2Fmerchants%3Fx%23y");
  const options = { apiKey: "key", merchantId: "mrch_1", appId: "app_1", clientId: "page" };
  for (const url of ["http://pay.example", "ftp://pay.example", "http://localhost.example"]) {
    assert.throws(() => new Florin({ url, ...options }), TypeError);
    assert.throws(() => new FlorinGateway({ url, ...options }), TypeError);
  }
  for (const url of ["http://localhost:1", "http://127.0.0.1", "http://[::1]:1"]) new Florin({ url, ...options });
  const open = new Florin({ url: "http://florin:8080", allowHttp: true, ...options, apiKey: "fl_live_secret" });
  const { inspect } = await import("node:util");
  assert.doesNotMatch(inspect(open, { depth: 9, showHidden: false }) + JSON.stringify(open), /fl_live/);
});

const SECRET = `whsec_${Buffer.from("a secret of 24 bytes....").toString("base64")}`;
const OTHER = `whsec_${Buffer.from("another secret of 24 ...").toString("base64")}`;
const NOW_S = 1_800_000_000;

/** Return a webhook that is signed with the secrets. */
function signWebhook(secrets, changes = {}) {
  const body = changes.body ?? '{"id":"evt_1","type":"payment.succeeded","data":{}}';
  const timestamp = String(changes.at ?? NOW_S);
  const sign = (secret) => createHmac("sha256", Buffer.from(secret.slice(6), "base64")).update(`evt_1.${timestamp}.${body}`);
  const signature = ["v1a,AAAA", ...secrets.map((secret) => `v1,${sign(secret).digest("base64")}`)].join(" ");
  const family = changes.family ?? "webhook";
  const headers = { [`${family}-id`]: "evt_1", [`${family}-timestamp`]: timestamp, [`${family}-signature`]: signature };
  return { body, headers, now: () => NOW_S * 1000 };
}

test("a signed webhook is accepted, in every form and during a rotation", async () => {
  const signed = signWebhook([SECRET]);
  const accepted = [
    { ...signed, secret: SECRET },
    { ...signed, secret: [OTHER, SECRET] },
    { ...signWebhook([OTHER, SECRET]), secret: SECRET },
    { ...signWebhook([SECRET], { family: "svix" }), secret: SECRET },
    { ...signed, secret: SECRET, headers: new Headers(signed.headers) },
    { ...signed, secret: SECRET, body: new TextEncoder().encode(signed.body) },
    { ...signWebhook([SECRET], { at: NOW_S - 300 }), secret: SECRET },
    { ...signWebhook([SECRET], { at: NOW_S - 900 }), secret: SECRET, toleranceS: 900 },
  ];
  for (const webhook of accepted) assert.equal((await verifyWebhook(webhook)).type, "payment.succeeded");
});

test("a forged, changed or old webhook is refused", async () => {
  const signed = { ...signWebhook([SECRET]), secret: SECRET };
  const { "webhook-id": id, "webhook-timestamp": at, "webhook-signature": signature } = signed.headers;
  const change = (headers) => ({ ...signed, headers: { ...signed.headers, ...headers } });
  const refused = [
    { ...signed, secret: OTHER },
    { ...signed, body: signed.body.replace("evt_1", "evt_2") },
    { ...signed, headers: {} },
    change({ "webhook-id": "evt_2" }),
    change({ "webhook-id": [id, id] }),
    change({ "webhook-timestamp": String(NOW_S + 1) }),
    change({ "webhook-timestamp": `${at}x` }),
    change({ "webhook-signature": "" }),
    change({ "webhook-signature": signature.replaceAll("v1,", "v2,") }),
    change({ "webhook-signature": "v1, v1,AAAA v1,%%%" }),
    // beyond the number of signatures that are read
    change({ "webhook-signature": "v1,AAAA ".repeat(16) + signature }),
    { ...signWebhook([SECRET], { at: NOW_S - 301 }), secret: SECRET },
    { ...signWebhook([SECRET], { at: NOW_S + 301 }), secret: SECRET },
    { ...signed, toleranceS: Number.NaN },
    { ...signWebhook([SECRET], { body: "[]" }), secret: SECRET },
    { ...signWebhook([SECRET], { body: "x" }), secret: SECRET },
  ];
  for (const webhook of refused) await assert.rejects(verifyWebhook(webhook), WebhookVerificationError);
  for (const secret of ["", "whsec_", "whsec_%", "secret", []]) {
    await assert.rejects(verifyWebhook({ ...signed, secret }), TypeError);
  }
});

test("webhooks verify where the Web Crypto API is not global, as in Node 18", async (t) => {
  const own = Object.getOwnPropertyDescriptor(globalThis, "crypto");
  delete globalThis.crypto;
  t.after(() => Object.defineProperty(globalThis, "crypto", own));
  assert.equal(globalThis.crypto, undefined);
  assert.equal((await verifyWebhook({ ...signWebhook([SECRET]), secret: SECRET })).id, "evt_1");
});

test("events are parsed at every boundary of chunks, and have a limit", async () => {
  const text = 'retry: 2000\r\n: comment\r\n\r\nevent: status\nid: 7\ndata: {"a":"é"}\n\ndata:x\ndata: y\n\nevent: cut\ndata: z\n';
  const bytes = new TextEncoder().encode(text);
  for (let size = 1; size <= bytes.length; size += 1) {
    const chunks = [];
    for (let at = 0; at < bytes.length; at += size) chunks.push(bytes.subarray(at, at + size));
    const delays = [];
    const events = [];
    for await (const event of parseEvents(ReadableStream.from(chunks), () => {}, (ms) => delays.push(ms))) events.push(event);
    assert.deepEqual(events, [{ event: "status", id: "7", data: '{"a":"é"}' }, { event: "", id: "7", data: "x\ny" }]);
    assert.deepEqual(delays, [2000]);
  }
  const endless = ReadableStream.from((function* () { for (;;) yield new Uint8Array(65_536).fill(97); })());
  await assert.rejects(parseEvents(endless, () => {}, () => {}).next(), RangeError);
});
