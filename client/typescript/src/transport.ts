import { type ErrorInfo, FlorinError, type Issue, NoResponseError, TimeoutError } from "./errors.js";
import { createIdempotencyKey } from "./random.js";
import { Backoff, isRetryable, resolveLimits, type RetryLimits, type RetryOptions, sleep } from "./retries.js";
import { VERSION } from "./version.js";

/** Options of every client. */
export interface ConnectionOptions {
  /** Address of Florin, such as `https://pay.example`. */
  url: string;
  /** Accept `http` for hosts other than this machine: credentials are sent without encryption. */
  allowHttp?: boolean;
  /** Version of the API; by default the version that the account is pinned to. */
  payVersion?: string;
  /** Longest time for a call with its retries, in milliseconds. Default 30,000. */
  timeoutMs?: number;
  /** Longest time for one attempt, in milliseconds, besides `maxPollMs`. Default 10,000. */
  attemptTimeoutMs?: number;
  /** Limits on retries. */
  retries?: RetryOptions;
  /** Replacement of the global `fetch`. */
  fetch?: typeof fetch;
}

/** Options of one call. */
export interface CallOptions {
  /** Ends the call, its retries and its waits. */
  signal?: AbortSignal | undefined;
  /** Longest time for the call with its retries, in milliseconds. */
  timeoutMs?: number;
}

/** Options of one call that changes something. */
export interface MutationOptions extends CallOptions {
  /** Key of the call; by default a new random key. Calls with the same key have one effect. */
  idempotencyKey?: string;
}

/** Values of a query; lists are repeated parameters. */
export type Query = Record<string, string | number | boolean | readonly string[] | null | undefined>;

export interface RequestSpec {
  method: "GET" | "POST" | "PATCH" | "DELETE";
  path: string;
  query?: Query | undefined;
  body?: unknown;
  headers?: Record<string, string>;
  /** `keyed`: sends an idempotency key. `repeatable`: has one effect anyway. `once`: neither. */
  effect?: "keyed" | "repeatable" | "once";
}

const LOCAL_HOSTS = new Set(["localhost", "127.0.0.1", "[::1]"]);
const RETRY_AFTER_MAX_S = 86_400;

/** Return a path with an id; throw TypeError if the id would change the path. */
export function formatPath(before: string, id: string, after = ""): string {
  // a URL drops such segments, and with them a part of the path
  if (id === "" || id === "." || id === "..") throw new TypeError(`not an id: "${id}"`);
  return `${before}/${encodeURIComponent(id)}${after}`;
}

/** Sends requests, with credentials, timeouts and retries. */
export class Transport {
  readonly limits: RetryLimits;
  readonly #base: string;
  readonly #credentials: Record<string, string>;
  readonly #fetch: typeof fetch;
  readonly #timeoutMs: number;
  readonly #attemptTimeoutMs: number;

  constructor(options: ConnectionOptions, credentials: Record<string, string>) {
    const url = new URL(options.url);
    const isPrivate = LOCAL_HOSTS.has(url.hostname) || options.allowHttp === true;
    if (url.protocol !== "https:" && !(url.protocol === "http:" && isPrivate)) {
      throw new TypeError(`${url.protocol}//${url.host}: use https, or set allowHttp`);
    }
    this.#base = url.origin + url.pathname.replace(/\/+$/, "");
    this.#credentials = {
      ...credentials,
      "Sdk-Name": "florin-client-typescript",
      "Sdk-Version": VERSION,
      ...(options.payVersion === undefined ? {} : { "Pay-Version": options.payVersion }),
    };
    // called without `this`, which browsers refuse
    this.#fetch = options.fetch ?? ((input, init) => globalThis.fetch(input, init));
    this.#timeoutMs = options.timeoutMs ?? 30_000;
    this.#attemptTimeoutMs = options.attemptTimeoutMs ?? 10_000;
    this.limits = resolveLimits(options.retries);
  }

  /** Send a request, with retries; return the JSON of its response. */
  async request<T>(spec: RequestSpec, options: MutationOptions = {}): Promise<T> {
    const { idempotencyKey, signal } = options;
    const key = spec.effect === "keyed" ? (idempotencyKey ?? (await createIdempotencyKey())) : undefined;
    const isRepeatable = spec.method === "GET" || spec.effect !== "once";
    const deadline = Date.now() + (options.timeoutMs ?? this.#timeoutMs);
    const backoff = new Backoff(this.limits, this.limits.patienceMs);
    for (;;) {
      try {
        return (await this.#attempt(spec, key, deadline, signal)) as T;
      } catch (error) {
        if (!isRetryable(error, isRepeatable)) throw error;
        const delay = backoff.nextDelayMs(Date.now(), error.retryAfterMs);
        if (delay === undefined || Date.now() + delay >= deadline) throw error;
        await sleep(delay, signal);
      }
    }
  }

  /**
   * Open a stream of events; return the response, whose status is 200 or 204.
   *
   * `stop` ends the stream, also while its body is read; it is aborted if no response comes in time.
   */
  async openStream(
    spec: RequestSpec,
    stop: AbortController,
    signal: AbortSignal | undefined,
  ): Promise<Response> {
    const timer = setTimeout(() => stop.abort(), this.#attemptTimeoutMs);
    try {
      const response = await this.#send(spec, undefined, stop.signal, signal);
      if (!response.ok) throw await readError(response, undefined);
      return response;
    } finally {
      clearTimeout(timer);
    }
  }

  async #attempt(
    spec: RequestSpec,
    key: string | undefined,
    deadline: number,
    signal: AbortSignal | undefined,
  ): Promise<unknown> {
    const poll = Number(spec.query?.["maxPollMs"] ?? 0);
    const left = Math.max(0, Math.min(this.#attemptTimeoutMs + poll, deadline - Date.now()));
    const stop = new AbortController();
    const timer = setTimeout(() => stop.abort(), left);
    const forward = (): void => stop.abort(signal?.reason);
    signal?.addEventListener("abort", forward, { once: true });
    try {
      signal?.throwIfAborted();
      const response = await this.#send(spec, key, stop.signal, signal);
      if (!response.ok) throw await readError(response, key);
      return await readJson(response, key, signal);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", forward);
    }
  }

  async #send(
    spec: RequestSpec,
    key: string | undefined,
    stop: AbortSignal,
    signal: AbortSignal | undefined,
  ): Promise<Response> {
    const headers: Record<string, string> = { ...this.#credentials, ...spec.headers };
    if (key !== undefined) headers["Idempotency-Key"] = key;
    const hasBody = spec.body !== undefined;
    if (hasBody) headers["Content-Type"] = "application/json";
    try {
      return await this.#fetch(this.#base + spec.path + formatQuery(spec.query), {
        method: spec.method,
        headers,
        signal: stop,
        // credentials are for this host only
        redirect: "manual",
        ...(hasBody ? { body: JSON.stringify(spec.body) } : {}),
      });
    } catch (error) {
      throw toFailure(error, stop, signal, key);
    }
  }
}

function formatQuery(query: Query = {}): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const item of Array.isArray(value) ? (value as readonly string[]) : [value]) {
      if (item !== undefined && item !== null) parameters.append(name, String(item));
    }
  }
  const text = parameters.toString();
  return text === "" ? "" : `?${text}`;
}

/** Return the error of a failed fetch; throw the reason of the caller's signal. */
function toFailure(
  error: unknown,
  stop: AbortSignal,
  signal: AbortSignal | undefined,
  key: string | undefined,
): FlorinError {
  signal?.throwIfAborted();
  if (stop.aborted) return new TimeoutError("Florin did not respond in time", key, { cause: error });
  const reason = error instanceof Error ? error.message : String(error);
  return new NoResponseError(`Florin cannot be reached: ${reason}`, key, { cause: error });
}

async function readJson(
  response: Response,
  key: string | undefined,
  signal: AbortSignal | undefined,
): Promise<unknown> {
  let text: string;
  try {
    text = await response.text();
  } catch (error) {
    signal?.throwIfAborted();
    throw new NoResponseError("The response was cut", key, { cause: error });
  }
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new FlorinError({ ...describe(response, key), message: "The response is not JSON" }, { cause: error });
  }
}

async function readError(response: Response, key: string | undefined): Promise<FlorinError> {
  const info = describe(response, key);
  let body: unknown;
  try {
    body = JSON.parse(await response.text());
  } catch {
    return new FlorinError(info);
  }
  if (typeof body !== "object" || body === null) return new FlorinError(info);
  const { code, message, requestId, issues, details } = body as Record<string, unknown>;
  return new FlorinError({
    ...info,
    ...(typeof code === "string" ? { code } : {}),
    ...(typeof message === "string" ? { message } : {}),
    ...(typeof requestId === "string" ? { requestId } : {}),
    ...(Array.isArray(issues) ? { issues: issues as Issue[] } : {}),
    ...(typeof details === "object" && details !== null ? { details: details as Record<string, string> } : {}),
  });
}

function describe(response: Response, key: string | undefined): ErrorInfo {
  const after = response.headers.get("Retry-After") ?? "";
  const isSeconds = /^\d{1,9}$/.test(after);
  return {
    code: "",
    message: `Florin responded with status ${response.status}`,
    status: response.status,
    requestId: response.headers.get("Request-Id") ?? "",
    retryAfterMs: isSeconds ? Math.min(Number(after), RETRY_AFTER_MAX_S) * 1000 : undefined,
    idempotencyKey: key,
  };
}
