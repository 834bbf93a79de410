export type * from "./api.js";
export { FlorinError, NoResponseError, TimeoutError, WebhookVerificationError } from "./errors.js";
export type { ErrorCode, Issue } from "./errors.js";
export { FlorinGateway } from "./gateway.js";
export type { ConfirmOptions, ExecutableAction, FlorinGatewayOptions } from "./gateway.js";
export type { Listing } from "./listing.js";
export { Florin } from "./merchant.js";
export type {
  FlorinOptions,
  PartnerPaymentListQuery,
  PaymentListQuery,
  Payments,
  Refunds,
  Sandbox,
  WebhookEndpoints,
} from "./merchant.js";
export type { RetryOptions } from "./retries.js";
export type { CallOptions, ConnectionOptions, MutationOptions } from "./transport.js";
export { verifyWebhook } from "./webhooks.js";
export type { ReceivedWebhook, WebhookHeaders } from "./webhooks.js";
export type { WatchOptions } from "./watch.js";
