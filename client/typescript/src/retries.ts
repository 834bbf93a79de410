import { FlorinError, NoResponseError } from "./errors.js";

/** Limits on retries, in milliseconds. */
export interface RetryOptions {
  /** Time from the first failure of a call; 0 disables retries. Default 15,000. */
  patienceMs?: number;
  /** The same for streams, from their last message. Default 300,000. */
  streamPatienceMs?: number;
  /** Delay before the first retry; it doubles with each further retry. Default 200. */
  firstDelayMs?: number;
  /** Longest delay. Default 5,000. */
  longestDelayMs?: number;
}

export type RetryLimits = Required<RetryOptions>;

const DEFAULT_LIMITS: RetryLimits = {
  patienceMs: 15_000,
  streamPatienceMs: 300_000,
  firstDelayMs: 200,
  longestDelayMs: 5_000,
};
// the server, or a proxy in front of it, did not execute the request or cannot say so
const UNAVAILABLE = new Set([408, 502, 503, 504]);

export function resolveLimits(options: RetryOptions = {}): RetryLimits {
  return { ...DEFAULT_LIMITS, ...options };
}

/**
 * Return true if a repeated call is safe and can succeed.
 *
 * `isRepeatable` is true for calls that have one effect even if the server executed the first
 * attempt. Other calls are repeated only if the server refused them before any effect.
 */
export function isRetryable(error: unknown, isRepeatable: boolean): error is FlorinError {
  if (!(error instanceof FlorinError)) return false;
  if (error.status === 429) return true;
  if (!isRepeatable) return false;
  if (error instanceof NoResponseError || UNAVAILABLE.has(error.status)) return true;
  // the first attempt with this key still runs
  const isInFlight = error.status === 409 && error.code === "idempotency_conflict";
  return isInFlight && error.retryAfterMs !== undefined;
}

/** Delays between the attempts of one call or stream. */
export class Backoff {
  #failures = 0;
  #failingSince: number | undefined;

  constructor(
    private readonly limits: RetryLimits,
    private readonly patienceMs: number,
  ) {}

  /** Forget earlier failures. */
  reset(): void {
    this.#failures = 0;
    this.#failingSince = undefined;
  }

  /**
   * Return the delay before the next attempt in milliseconds; undefined if the patience ends before.
   *
   * Delays are shortened at random by up to a half, so that clients do not return together. They are
   * never shorter than `retryAfterMs`.
   */
  nextDelayMs(now: number, retryAfterMs = 0): number | undefined {
    this.#failingSince ??= now;
    const { firstDelayMs, longestDelayMs } = this.limits;
    const usual = Math.min(longestDelayMs, firstDelayMs * 2 ** this.#failures);
    this.#failures += 1;
    const delay = Math.max(usual * (0.5 + Math.random() / 2), retryAfterMs);
    return now + delay > this.#failingSince + this.patienceMs ? undefined : delay;
  }
}

/** Wait; throw the signal's reason if it is aborted before. */
export function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const onAbort = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", onAbort);
      resolve();
    }, ms);
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}
