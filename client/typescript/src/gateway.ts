import type {
  Action,
  CancelPaymentResponse,
  ClaimDepositRequest,
  ClaimDepositResponse,
  ConfirmPaymentRequest,
  FetchActionRequest,
  FetchActionResponse,
  GetPaymentOptionsRequest,
  GetPaymentOptionsResponse,
  GetPaymentStatusResponse,
  OpenAddressesRequest,
  OpenAddressesResponse,
  PaymentInfo,
  PaymentOption,
  WalletRpcAction,
  WatchPaymentResponse,
} from "./api.js";
import { type CallOptions, type ConnectionOptions, formatPath, Transport } from "./transport.js";
import { waitFinal, watch, type WatchOptions } from "./watch.js";

/** Options of a page or a wallet. Its credentials are public. */
export interface FlorinGatewayOptions extends ConnectionOptions {
  /** Public app id of the registered wallet. */
  appId: string;
  /** Name of this installation of the page or wallet, of your choice. */
  clientId: string;
}

/** An action for the wallet, with parsed parameters. */
export interface ExecutableAction {
  /** Chain of the action, as CAIP-2. */
  chainId: string;
  method: string;
  params: unknown[];
}

/** Client of a page or a wallet, which pays one payment. Works in browsers of every origin. */
export class FlorinGateway {
  readonly #transport: Transport;

  constructor({ appId, clientId, ...options }: FlorinGatewayOptions) {
    this.#transport = new Transport(options, { "App-Id": appId, "Client-Id": clientId });
  }

  /** Return what a buyer may know about a payment. */
  getPayment(paymentId: string, options?: CallOptions): Promise<PaymentInfo> {
    return this.#transport.request({ method: "GET", path: formatPath(PATH, paymentId) }, options);
  }

  /** Return the status; `maxPollMs` waits up to 25 seconds until it changes. */
  getStatus(
    paymentId: string,
    { maxPollMs, ...options }: CallOptions & { maxPollMs?: number } = {},
  ): Promise<GetPaymentStatusResponse> {
    const path = formatPath(PATH, paymentId, "/status");
    return this.#transport.request({ method: "GET", path, query: { maxPollMs } }, options);
  }

  /** Return the ways in which the accounts (CAIP-10) can pay. */
  getOptions(
    paymentId: string,
    request: GetPaymentOptionsRequest,
    options?: CallOptions,
  ): Promise<GetPaymentOptionsResponse> {
    const path = formatPath(PATH, paymentId, "/options");
    return this.#transport.request({ method: "POST", path, body: request, effect: "repeatable" }, options);
  }

  /**
   * Return addresses, one for each asset (CAIP-19), to which any wallet or exchange can send.
   *
   * The same asset has the same address, as long as its price holds. A wallet must compute the address
   * again from its `route` before it sends: it comes from the server.
   */
  openAddresses(
    paymentId: string,
    request: OpenAddressesRequest,
    options?: CallOptions,
  ): Promise<OpenAddressesResponse> {
    const path = formatPath(PATH, paymentId, "/addresses");
    return this.#transport.request({ method: "POST", path, body: request, effect: "repeatable" }, options);
  }

  /**
   * Claim money of an asset that is held at the payment, for an account of the buyer.
   *
   * Money is held there if it came from an exchange or a contract and was not part of the payment. The
   * merchant or the operator decides. The same account again gets the same claims, as they are by then.
   */
  claimDeposit(
    paymentId: string,
    request: ClaimDepositRequest,
    options?: CallOptions,
  ): Promise<ClaimDepositResponse> {
    const path = formatPath(PATH, paymentId, "/claims");
    return this.#transport.request({ method: "POST", path, body: request, effect: "repeatable" }, options);
  }

  /** Return the actions of an option that has to be resolved first. */
  fetchAction(
    paymentId: string,
    request: FetchActionRequest,
    options?: CallOptions,
  ): Promise<FetchActionResponse> {
    const path = formatPath(PATH, paymentId, "/fetch");
    return this.#transport.request({ method: "POST", path, body: request, effect: "repeatable" }, options);
  }

  /**
   * Return what the wallet has to execute for an option, in order.
   *
   * Check in the wallet what you sign: these actions come from the server.
   */
  async getExecutableActions(
    paymentId: string,
    option: PaymentOption,
    options?: CallOptions,
  ): Promise<ExecutableAction[]> {
    const resolved: ExecutableAction[] = [];
    for (const action of option.actions) {
      resolved.push(...(await this.#resolve(paymentId, option, action, options)));
    }
    return resolved;
  }

  /** Confirm an option with the wallet's outputs, one for each action, in order. */
  confirm(
    paymentId: string,
    { optionId, outputs, collectedData }: ConfirmOptions,
    options?: CallOptions,
  ): Promise<GetPaymentStatusResponse> {
    const path = formatPath(PATH, paymentId, "/confirm");
    const results = outputs.map((output) => ({ type: "walletRpc" as const, data: [output] }));
    const body = { optionId, results, ...(collectedData === undefined ? {} : { collectedData }) };
    return this.#transport.request({ method: "POST", path, body, effect: "repeatable" }, options);
  }

  /** Cancel a payment that is not confirmed. */
  cancel(paymentId: string, options?: CallOptions): Promise<CancelPaymentResponse> {
    const path = formatPath(PATH, paymentId, "/cancel");
    return this.#transport.request({ method: "POST", path, effect: "repeatable" }, options);
  }

  /** Yield each newer status until the final one; reconnects and resumes. */
  watch(paymentId: string, options: WatchOptions = {}): AsyncGenerator<WatchPaymentResponse, void, undefined> {
    return watch(this.#transport, formatPath(PATH, paymentId, "/events"), options);
  }

  /** Return the final status; throw TimeoutError if it takes longer than `timeoutMs`. */
  waitFinal(paymentId: string, options: CallOptions = {}): Promise<WatchPaymentResponse> {
    return waitFinal(this.#transport, formatPath(PATH, paymentId, "/events"), options);
  }

  async #resolve(
    paymentId: string,
    option: PaymentOption,
    action: Action,
    options?: CallOptions,
  ): Promise<ExecutableAction[]> {
    if (action.type === "walletRpc") return [toExecutable(action.data)];
    const request = { optionId: option.id, data: action.data.data };
    const { actions } = await this.fetchAction(paymentId, request, options);
    return actions.flatMap((fetched) => (fetched.type === "walletRpc" ? [toExecutable(fetched.data)] : []));
  }
}

/** A confirmed option. */
export interface ConfirmOptions {
  optionId: string;
  outputs: readonly unknown[];
  /** Data about the buyer, if the option needs it and the wallet collects it. */
  collectedData?: ConfirmPaymentRequest["collectedData"];
}

const PATH = "/v1/gateway/payment";

function toExecutable({ chain_id, method, params }: WalletRpcAction): ExecutableAction {
  const parsed: unknown = typeof params === "string" ? JSON.parse(params) : params;
  return { chainId: chain_id, method, params: Array.isArray(parsed) ? parsed : [parsed] };
}
