import type { WebhookEvent } from "./api.js";
import { WebhookVerificationError } from "./errors.js";
import { getCrypto } from "./random.js";

/** Headers of a request: of `fetch`, or of Node. */
export type WebhookHeaders = Headers | Readonly<Record<string, string | readonly string[] | undefined>>;

/** A webhook as it was received. */
export interface ReceivedWebhook {
  /** The received bytes, or their text, unchanged. */
  body: Uint8Array | string;
  headers: WebhookHeaders;
  /** Secret of the endpoint (`whsec_…`); several while you replace one. */
  secret: string | readonly string[];
  /** Longest time between signing and now, in seconds. Default 300. */
  toleranceS?: number;
  /** Current time in milliseconds. */
  now?: () => number;
}

// both families have equal values
const FAMILIES = ["webhook", "svix"] as const;
const TOLERANCE_S = 300;
const SECRETS_MAX = 10;
// a message is signed with three secrets at most, each in two ways
const SIGNATURES_MAX = 16;
const DIGEST_BYTES = 32;
const PREFIX = "whsec_";

/**
 * Return the event of a webhook, after its signature was verified with one of the secrets.
 *
 * Throws WebhookVerificationError if a header is missing, no signature is valid, or the message was
 * signed more than `toleranceS` before or after now: it can be a replay. Throws TypeError if a secret
 * is malformed. Events can arrive twice and their `id` stays the same: handle each id once.
 */
export async function verifyWebhook(webhook: ReceivedWebhook): Promise<WebhookEvent> {
  const { id, timestamp, signature } = readHeaders(webhook.headers);
  if (!/^\d{1,12}$/.test(timestamp)) fail("the timestamp is invalid");
  const ageS = Math.abs((webhook.now ?? Date.now)() / 1000 - Number(timestamp));
  if (!(ageS <= (webhook.toleranceS ?? TOLERANCE_S))) fail("the timestamp is too old, or in the future");
  const body = typeof webhook.body === "string" ? new TextEncoder().encode(webhook.body) : webhook.body;
  const content = concatenate(new TextEncoder().encode(`${id}.${timestamp}.`), body);
  const secrets = typeof webhook.secret === "string" ? [webhook.secret] : webhook.secret;
  if (secrets.length === 0 || secrets.length > SECRETS_MAX) throw new TypeError(`1 to ${SECRETS_MAX} secrets are needed`);
  if (!(await hasValidSignature(content, parseSignatures(signature), secrets))) fail("no signature is valid");
  let event: unknown;
  try {
    event = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(body));
  } catch {
    return fail("the body is not JSON");
  }
  if (typeof event !== "object" || event === null || Array.isArray(event)) return fail("the body is not a JSON object");
  return event as WebhookEvent;
}

function fail(reason: string): never {
  throw new WebhookVerificationError(reason);
}

/** Return the first complete family of headers. */
function readHeaders(headers: WebhookHeaders): { id: string; timestamp: string; signature: string } {
  for (const family of FAMILIES) {
    const [id, timestamp, signature] = ["id", "timestamp", "signature"].map((part) =>
      getHeader(headers, `${family}-${part}`),
    );
    if (id && timestamp && signature) return { id, timestamp, signature };
  }
  return fail("the headers webhook-id, webhook-timestamp and webhook-signature are needed");
}

function getHeader(headers: WebhookHeaders, name: string): string | undefined {
  if (isFetchHeaders(headers)) return headers.get(name) ?? undefined;
  for (const [key, value] of Object.entries(headers)) {
    // a repeated header is ambiguous, and counts as missing
    if (key.toLowerCase() === name && typeof value === "string") return value;
  }
  return undefined;
}

function isFetchHeaders(headers: WebhookHeaders): headers is Headers {
  return typeof headers["get"] === "function";
}

/** Return the signatures by secret (`v1`) that have the length of a digest. */
function parseSignatures(text: string): Uint8Array<ArrayBuffer>[] {
  return text
    .split(" ", SIGNATURES_MAX)
    .filter((part) => part.startsWith("v1,"))
    .map((part) => decodeBase64(part.slice("v1,".length)))
    .filter((bytes) => bytes?.length === DIGEST_BYTES)
    .map((bytes) => bytes as Uint8Array<ArrayBuffer>);
}

async function hasValidSignature(
  content: Uint8Array<ArrayBuffer>,
  signatures: readonly Uint8Array<ArrayBuffer>[],
  secrets: readonly string[],
): Promise<boolean> {
  const { subtle } = await getCrypto();
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const keys = secrets.map((secret) => {
    const bytes = secret.startsWith(PREFIX) ? decodeBase64(secret.slice(PREFIX.length)) : undefined;
    if (!bytes?.length) throw new TypeError("a secret of a webhook endpoint starts with whsec_");
    return bytes;
  });
  for (const bytes of keys) {
    const key = await subtle.importKey("raw", bytes, algorithm, false, ["verify"]);
    for (const signature of signatures) {
      // compares in constant time
      if (await subtle.verify(algorithm, key, signature, content)) return true;
    }
  }
  return false;
}

function decodeBase64(text: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  } catch {
    return undefined;
  }
}

function concatenate(first: Uint8Array, second: Uint8Array): Uint8Array<ArrayBuffer> {
  const joined = new Uint8Array(first.length + second.length);
  joined.set(first);
  joined.set(second, first.length);
  return joined;
}
