import type { Error as ErrorBody } from "./api.js";

/** Code of an error; later versions of Florin can add codes. */
export type ErrorCode = ErrorBody["code"] | (string & {});

/** A fault of one member of a request. */
export interface Issue {
  field: string;
  message: string;
}

/** Facts about an error. */
export interface ErrorInfo {
  code: ErrorCode;
  message: string;
  status: number;
  requestId: string;
  issues?: readonly Issue[];
  details?: Readonly<Record<string, string>>;
  retryAfterMs?: number | undefined;
  idempotencyKey?: string | undefined;
}

/** A call that Florin refused, or that got no response. */
export class FlorinError extends Error {
  override readonly name: string = "FlorinError";
  /** Reason for programs, such as `payment_not_found`; empty if the response is not Florin's. */
  readonly code: ErrorCode;
  /** HTTP status; 0 without a response. */
  readonly status: number;
  /** Id of the request in Florin's log; empty without a response. */
  readonly requestId: string;
  /** Faults of the request by member. */
  readonly issues: readonly Issue[];
  /** Further facts, by name. */
  readonly details: Readonly<Record<string, string>>;
  /** Wait that Florin asks for, in milliseconds. */
  readonly retryAfterMs: number | undefined;
  /** Key of the call, if it has one. Pass it again to repeat the call without a second effect. */
  readonly idempotencyKey: string | undefined;

  constructor(info: ErrorInfo, options?: ErrorOptions) {
    super(info.message, options);
    this.code = info.code;
    this.status = info.status;
    this.requestId = info.requestId;
    this.issues = info.issues ?? [];
    this.details = info.details ?? {};
    this.retryAfterMs = info.retryAfterMs;
    this.idempotencyKey = info.idempotencyKey;
  }
}

/** A call without a response. Florin may have executed it. */
export class NoResponseError extends FlorinError {
  override readonly name: string = "NoResponseError";

  constructor(message: string, idempotencyKey?: string, options?: ErrorOptions) {
    super({ code: "", message, status: 0, requestId: "", idempotencyKey }, options);
  }
}

/** A call that did not end within its timeout. Florin may have executed it. */
export class TimeoutError extends NoResponseError {
  override readonly name: string = "TimeoutError";
}

/** A webhook that is not authentic: do not use any part of it. */
export class WebhookVerificationError extends Error {
  override readonly name: string = "WebhookVerificationError";
}
