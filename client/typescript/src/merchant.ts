import type {
  CancelPaymentResponse,
  CreatePaymentRequest,
  CreatePaymentResponse,
  CreateRefundRequest,
  CreateRefundResponse,
  CreateWebhookEndpointRequest,
  DeleteWebhookEndpointResponse,
  DepositClaim,
  GetPaymentStatusResponse,
  GetReceiptResponse,
  ListDepositClaimsResponse,
  ListPaymentEventsResponse,
  ListPaymentsResponse,
  ListWebhookAttemptsResponse,
  ListWebhookEndpointsResponse,
  operations,
  PaymentDetail,
  PaymentRow,
  ReplayWebhookRequest,
  ReplayWebhookResponse,
  RotateWebhookSecretRequest,
  SimulatedOutcome,
  UpdateWebhookEndpointRequest,
  WatchPaymentResponse,
  WebhookEndpoint,
  WebhookEndpointSecret,
} from "./api.js";
import { Listing } from "./listing.js";
import {
  type CallOptions,
  type ConnectionOptions,
  formatPath,
  type MutationOptions,
  type Query,
  Transport,
} from "./transport.js";
import { waitFinal, watch, type WatchOptions } from "./watch.js";

/** Options of a merchant's back end. */
export interface FlorinOptions extends ConnectionOptions {
  /** Key of the partner; keep it on the server. */
  apiKey: string;
  /** The merchant of the partner for which calls are made. */
  merchantId: string;
}

/** Filters and order of a list of payments. */
export type PaymentListQuery = Partial<
  NonNullable<operations["listMerchantPayments"]["parameters"]["query"]>
>;
/** The same, with a choice of merchants. */
export type PartnerPaymentListQuery = Partial<
  NonNullable<operations["listPayments"]["parameters"]["query"]>
>;

/** Client of a merchant's back end. */
export class Florin {
  readonly payments: Payments;
  readonly refunds: Refunds;
  readonly webhookEndpoints: WebhookEndpoints;
  readonly sandbox: Sandbox;

  constructor(options: FlorinOptions) {
    const credentials = { "Api-Key": options.apiKey, "Merchant-Id": options.merchantId };
    const transport = new Transport(options, credentials);
    this.payments = new Payments(transport);
    this.refunds = new Refunds(transport);
    this.webhookEndpoints = new WebhookEndpoints(transport);
    this.sandbox = new Sandbox(transport);
  }
}

class Resource {
  // not enumerable: logs of a client show no credentials
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  protected get transport(): Transport {
    return this.#transport;
  }
}

/** Payments of the merchant. */
export class Payments extends Resource {
  /** Create a payment; send the buyer to its `gatewayUrl`. */
  create(request: CreatePaymentRequest, options?: MutationOptions): Promise<CreatePaymentResponse> {
    const spec = { method: "POST", path: "/v1/payments", body: request, effect: "keyed" } as const;
    return this.transport.request(spec, options);
  }

  /** Return a payment with all of its details. */
  get(paymentId: string, options?: CallOptions): Promise<PaymentDetail> {
    return this.transport.request({ method: "GET", path: formatPath("/v1/payments", paymentId) }, options);
  }

  /** Return the status; `maxPollMs` waits up to 25 seconds until it changes. */
  getStatus(
    paymentId: string,
    { maxPollMs, ...options }: CallOptions & { maxPollMs?: number } = {},
  ): Promise<GetPaymentStatusResponse> {
    const path = formatPath("/v1/payments", paymentId, "/status");
    return this.transport.request({ method: "GET", path, query: { maxPollMs } }, options);
  }

  /** Return the events of a payment, oldest first. */
  getHistory(paymentId: string, options?: CallOptions): Promise<ListPaymentEventsResponse> {
    const path = formatPath("/v1/payments", paymentId, "/history");
    return this.transport.request({ method: "GET", path }, options);
  }

  /** Return the signed receipt of a succeeded payment. */
  getReceipt(paymentId: string, options?: CallOptions): Promise<GetReceiptResponse> {
    const path = formatPath("/v1/payments", paymentId, "/receipt");
    return this.transport.request({ method: "GET", path }, options);
  }

  /** Cancel a payment that no buyer has confirmed. */
  cancel(paymentId: string, options?: MutationOptions): Promise<CancelPaymentResponse> {
    const path = formatPath("/v1/payments", paymentId, "/cancel");
    return this.transport.request({ method: "POST", path, effect: "keyed" }, options);
  }

  /** Return the claims of buyers for money that is held at a payment, oldest first. */
  listDepositClaims(paymentId: string, options?: CallOptions): Promise<ListDepositClaimsResponse> {
    const path = formatPath("/v1/payments", paymentId, "/deposit-claims");
    return this.transport.request({ method: "GET", path }, options);
  }

  /**
   * Return the held money of a claim to its account; other claims for it are rejected.
   *
   * Anyone with the payment's link can claim: check with the buyer first.
   */
  confirmDepositClaim(paymentId: string, claimId: string, options?: MutationOptions): Promise<DepositClaim> {
    return this.#decide(paymentId, claimId, "/confirm", options);
  }

  /** Reject a claim; the money stays held. */
  rejectDepositClaim(paymentId: string, claimId: string, options?: MutationOptions): Promise<DepositClaim> {
    return this.#decide(paymentId, claimId, "/reject", options);
  }

  /** Iterate over the merchant's payments. */
  list(query: PaymentListQuery = {}, options?: CallOptions): Listing<PaymentRow, ListPaymentsResponse> {
    return this.#list("/v1/merchants/payments", query, options);
  }

  /** Iterate over the payments of all merchants of the partner. */
  listAllMerchants(
    query: PartnerPaymentListQuery = {},
    options?: CallOptions,
  ): Listing<PaymentRow, ListPaymentsResponse> {
    return this.#list("/v1/payments", query, options);
  }

  /** Yield each newer status until the final one; reconnects and resumes. */
  watch(paymentId: string, options: WatchOptions = {}): AsyncGenerator<WatchPaymentResponse, void, undefined> {
    return watch(this.transport, formatPath("/v1/payments", paymentId, "/events"), options);
  }

  /** Return the final status; throw TimeoutError if it takes longer than `timeoutMs`. */
  waitFinal(paymentId: string, options: CallOptions = {}): Promise<WatchPaymentResponse> {
    return waitFinal(this.transport, formatPath("/v1/payments", paymentId, "/events"), options);
  }

  #decide(
    paymentId: string,
    claimId: string,
    verb: string,
    options?: MutationOptions,
  ): Promise<DepositClaim> {
    const claims = formatPath("/v1/payments", paymentId, "/deposit-claims");
    const path = formatPath(claims, claimId, verb);
    return this.transport.request({ method: "POST", path, effect: "keyed" }, options);
  }

  #list(path: string, query: Query, options?: CallOptions): Listing<PaymentRow, ListPaymentsResponse> {
    const { cursor: first, ...filters } = query as Query & { cursor?: string };
    return new Listing(
      (cursor) => this.transport.request({ method: "GET", path, query: { ...filters, cursor } }, options),
      (page: ListPaymentsResponse) => page.data,
      (page) => page.nextCursor,
      first,
    );
  }
}

/** Refunds of the merchant's payments. */
export class Refunds extends Resource {
  /** Refund a payment, or the given part of it. */
  create(request: CreateRefundRequest, options?: MutationOptions): Promise<CreateRefundResponse> {
    const spec = { method: "POST", path: "/v1/refunds", body: request, effect: "keyed" } as const;
    return this.transport.request(spec, options);
  }
}

/** Receivers of webhooks. These calls have no idempotency keys. */
export class WebhookEndpoints extends Resource {
  /** Create an endpoint; the secret is not returned again. */
  create(request: CreateWebhookEndpointRequest, options?: CallOptions): Promise<WebhookEndpointSecret> {
    const spec = { method: "POST", path: "/v1/webhook-endpoints", body: request, effect: "once" } as const;
    return this.transport.request(spec, options);
  }

  /** Iterate over the endpoints of the partner, or of one of its merchants. */
  list(
    { merchantId }: { merchantId?: string } = {},
    options?: CallOptions,
  ): Listing<WebhookEndpoint, ListWebhookEndpointsResponse> {
    const path = "/v1/webhook-endpoints";
    return new Listing(
      (cursor) => this.transport.request({ method: "GET", path, query: { merchantId, cursor } }, options),
      (page: ListWebhookEndpointsResponse) => page.endpoints,
      (page) => page.nextCursor,
    );
  }

  /** Return an endpoint. */
  get(id: string, options?: CallOptions): Promise<WebhookEndpoint> {
    return this.transport.request({ method: "GET", path: formatPath("/v1/webhook-endpoints", id) }, options);
  }

  /** Change an endpoint, pause it, or resume it. */
  update(id: string, request: UpdateWebhookEndpointRequest, options?: CallOptions): Promise<WebhookEndpoint> {
    const path = formatPath("/v1/webhook-endpoints", id);
    return this.transport.request({ method: "PATCH", path, body: request, effect: "repeatable" }, options);
  }

  /** Delete an endpoint with its waiting events. */
  delete(id: string, options?: CallOptions): Promise<DeleteWebhookEndpointResponse> {
    const path = formatPath("/v1/webhook-endpoints", id);
    return this.transport.request({ method: "DELETE", path, effect: "once" }, options);
  }

  /** Create a new secret; the former one stays valid for `overlapSeconds`. */
  rotateSecret(
    id: string,
    request: RotateWebhookSecretRequest = {},
    options?: CallOptions,
  ): Promise<WebhookEndpointSecret> {
    const path = formatPath("/v1/webhook-endpoints", id, "/rotate");
    return this.transport.request({ method: "POST", path, body: request, effect: "once" }, options);
  }

  /** Return recent attempts to deliver events. */
  listAttempts(
    id: string,
    { paymentId }: { paymentId?: string } = {},
    options?: CallOptions,
  ): Promise<ListWebhookAttemptsResponse> {
    const path = formatPath("/v1/webhook-endpoints", id, "/attempts");
    return this.transport.request({ method: "GET", path, query: { paymentId } }, options);
  }

  /** Deliver the events of a payment again. */
  replay(id: string, request: ReplayWebhookRequest, options?: CallOptions): Promise<ReplayWebhookResponse> {
    const path = formatPath("/v1/webhook-endpoints", id, "/replay");
    return this.transport.request({ method: "POST", path, body: request, effect: "once" }, options);
  }
}

/** Outcomes of test payments on demand; needs a test key. */
export class Sandbox extends Resource {
  /** Give a test payment an outcome, without a wallet. */
  simulate(
    paymentId: string,
    outcome: SimulatedOutcome,
    options?: MutationOptions,
  ): Promise<GetPaymentStatusResponse> {
    const path = formatPath("/v1/sandbox/payments", paymentId, "/simulate");
    return this.transport.request({ method: "POST", path, body: { outcome }, effect: "keyed" }, options);
  }
}
