import { FlorinError, NoResponseError, TimeoutError } from "./errors.js";
import { parseEvents } from "./events.js";
import { Backoff, isRetryable, sleep } from "./retries.js";
import type { CallOptions, RequestSpec, Transport } from "./transport.js";

/** Options of a stream. */
export interface WatchOptions {
  /** Ends the stream. */
  signal?: AbortSignal | undefined;
  /** Last version that you know: only newer ones are sent. */
  afterVersion?: number;
}

interface Update {
  version: number;
  isFinal: boolean;
}

// the server sends a comment every 15 seconds
const SILENCE_MAX_MS = 45_000;
const RECONNECT_MAX_MS = 60_000;

/**
 * Yield each newer state, reconnect and resume after a lost connection, and end after the final state.
 *
 * A state is never repeated, and the newest one is always delivered; states that pass quickly can be
 * skipped.
 */
export async function* watch<T extends Update>(
  transport: Transport,
  path: string,
  { signal, afterVersion }: WatchOptions,
): AsyncGenerator<T, void, undefined> {
  const backoff = new Backoff(transport.limits, transport.limits.streamPatienceMs);
  let version = afterVersion;
  let reconnectMs = 0;
  for (;;) {
    signal?.throwIfAborted();
    const stop = new AbortController();
    const forward = (): void => stop.abort(signal?.reason);
    signal?.addEventListener("abort", forward, { once: true });
    try {
      const spec: RequestSpec = { method: "GET", path, headers: { Accept: "text/event-stream" } };
      if (version !== undefined) spec.headers = { ...spec.headers, "Last-Event-ID": String(version) };
      for await (const update of readUpdates<T>(transport, spec, stop, signal, (ms) => {
        reconnectMs = Math.min(ms, RECONNECT_MAX_MS);
      })) {
        if (version !== undefined && update.version <= version) continue;
        version = update.version;
        backoff.reset();
        yield update;
        if (update.isFinal) return;
      }
      if (stop.signal.aborted) signal?.throwIfAborted();
      // closed before the final state, for example because the server restarts
      await pause(new NoResponseError("The stream ended before the final state"), reconnectMs);
    } catch (error) {
      if (error instanceof EndOfStream) return;
      if (!isRetryable(error, true)) throw error;
      await pause(error, error.retryAfterMs ?? reconnectMs);
    } finally {
      signal?.removeEventListener("abort", forward);
      stop.abort();
    }
  }

  async function pause(error: FlorinError, leastMs: number): Promise<void> {
    const delay = backoff.nextDelayMs(Date.now(), leastMs);
    if (delay === undefined) throw error;
    await sleep(delay, signal);
  }
}

/** The server has no newer version, and none will follow. */
class EndOfStream extends Error {}

async function* readUpdates<T extends Update>(
  transport: Transport,
  spec: RequestSpec,
  stop: AbortController,
  signal: AbortSignal | undefined,
  onRetry: (ms: number) => void,
): AsyncGenerator<T, void, undefined> {
  const response = await transport.openStream(spec, stop, signal);
  if (response.status === 204 || response.body === null) throw new EndOfStream();
  let silence = setTimeout(() => stop.abort(), SILENCE_MAX_MS);
  const listen = (): void => {
    clearTimeout(silence);
    silence = setTimeout(() => stop.abort(), SILENCE_MAX_MS);
  };
  try {
    for await (const { event, data } of parseEvents(response.body, listen, onRetry)) {
      if (event === "status") yield JSON.parse(data) as T;
    }
  } catch (error) {
    signal?.throwIfAborted();
    throw new NoResponseError("The stream was cut", undefined, { cause: error });
  } finally {
    clearTimeout(silence);
  }
}

/** Return the final state; throw TimeoutError if it does not come within `timeoutMs`. */
export async function waitFinal<T extends Update>(
  transport: Transport,
  path: string,
  { signal, timeoutMs }: CallOptions,
): Promise<T> {
  const stop = new AbortController();
  const forward = (): void => stop.abort(signal?.reason);
  signal?.throwIfAborted();
  signal?.addEventListener("abort", forward, { once: true });
  const late = new TimeoutError("The payment is not final yet");
  const timer = timeoutMs === undefined ? undefined : setTimeout(() => stop.abort(late), timeoutMs);
  let last: T | undefined;
  try {
    for await (const update of watch<T>(transport, path, { signal: stop.signal })) last = update;
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", forward);
  }
  if (last?.isFinal !== true) throw new NoResponseError("The stream ended before the final state");
  return last;
}
