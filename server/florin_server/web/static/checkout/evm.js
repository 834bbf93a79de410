// Wallets of EVM chains in this browser: found by EIP-6963, asked by EIP-1193.

import { told } from "./checkout.js";

/**
 * @typedef {{request(asked: {method: string, params?: unknown[]}): Promise<unknown>, on?(event: string, listener: () => void): void, removeListener?(event: string, listener: () => void): void}} Provider
 * @typedef {import("./api.js").Option} Option
 * @typedef {import("./api.js").Action} Action
 * @typedef {{balance?: bigint, fee?: bigint}} Facts
 * @typedef {{name: string, icon: string, accounts(): Promise<string[]>, ready(option: Option): Promise<void>, run(action: Action): Promise<string>, facts(option: Option): Promise<Facts>, watch(listener: () => void): () => void}} Wallet
 */

/** Why a wallet cannot go on, by the key of its text. */
export class Trouble extends Error {
  /** @param {string} key @param {Record<string, string>} [values] */
  constructor(key, values = {}) {
    super(key);
    this.key = key;
    this.values = values;
  }
}

const ACCOUNTS_MAX = 5;
const DECLINED = 4001;
const BALANCE_OF = "0x70a08231";

/** Tells of each wallet once. @param {(wallet: Wallet) => void} found */
export function discover(found) {
  const known = new Set();
  addEventListener("eip6963:announceProvider", (event) => {
    const { info, provider } = /** @type {CustomEvent} */ (event).detail ?? {};
    if (typeof provider?.request !== "function" || known.has(provider)) return;
    known.add(provider);
    found(wallet(String(info?.name ?? ""), String(info?.icon ?? ""), provider));
  });
  dispatchEvent(new Event("eip6963:requestProvider"));
  // of wallets that do not announce themselves there is one at most
  const { ethereum } = /** @type {Window & {ethereum?: Provider}} */ (window);
  if (known.size === 0 && typeof ethereum?.request === "function") found(wallet("", "", ethereum));
}

/** @param {unknown} value */
const texts = (value) => (Array.isArray(value) ? value.filter((one) => typeof one === "string") : []);

/** @param {unknown} value */
const hex = (value) => (typeof value === "string" && /^0x[0-9a-f]{1,64}$/i.test(value) ? BigInt(value) : undefined);

/** @param {unknown} error */
function troubleOf(error) {
  if (error instanceof Trouble) return error;
  const { code, message } = /** @type {{code?: number, message?: string}} */ (error ?? {});
  if (code === DECLINED) return new Trouble("declined");
  return new Trouble("wallet_failed", { reason: String(message ?? error).slice(0, 200) });
}

/** @param {string} name @param {string} icon @param {Provider} provider @returns {Wallet} */
function wallet(name, icon, provider) {
  /** @param {string} method @param {unknown[]} [params] */
  const ask = async (method, params) => {
    try {
      return await provider.request(params ? { method, params } : { method });
    } catch (error) {
      throw troubleOf(error);
    }
  };
  const chainNow = async () => `eip155:${hex(await ask("eth_chainId")) ?? 0n}`;
  return {
    name,
    icon,
    async accounts() {
      const addresses = texts(await ask("eth_requestAccounts")).slice(0, ACCOUNTS_MAX);
      const chains = told.chains.filter((chain) => chain.id.startsWith("eip155:"));
      return addresses.flatMap((address) => chains.map((chain) => `${chain.id}:${address}`));
    },
    async ready(option) {
      const [namespace, number, address] = option.account.split(":");
      const chain = `${namespace}:${number}`;
      if ((await chainNow()) !== chain) {
        const network = told.chains.find((one) => one.id === chain)?.name ?? chain;
        try {
          await provider.request({
            method: "wallet_switchEthereumChain",
            params: [{ chainId: `0x${BigInt(number ?? 0).toString(16)}` }],
          });
        } catch (error) {
          const { code } = /** @type {{code?: number}} */ (error ?? {});
          throw new Trouble(code === DECLINED ? "declined" : "switch_network", { network });
        }
        if ((await chainNow()) !== chain) throw new Trouble("switch_network", { network });
      }
      const now = texts(await ask("eth_accounts")).map((one) => one.toLowerCase());
      if (!now.includes((address ?? "").toLowerCase())) throw new Trouble("account_changed");
    },
    async run(action) {
      const output = await ask(action.data.method, JSON.parse(action.data.params));
      if (typeof output !== "string") throw new Trouble("wallet_failed", { reason: typeof output });
      return output;
    },
    async facts(option) {
      const chain = option.account.split(":").slice(0, 2).join(":");
      // a wallet tells of the chain that it is on, and of no other
      if ((await chainNow()) !== chain) return {};
      const owner = option.account.split(":")[2] ?? "";
      const [, kind, place] = option.amount.unit.match(/\/([a-z0-9]+):([^:/]+)$/i) ?? [];
      const padded = owner.slice(2).toLowerCase().padStart(64, "0");
      const balance =
        kind === "erc20"
          ? hex(await ask("eth_call", [{ to: place, data: BALANCE_OF + padded }, "latest"]))
          : hex(await ask("eth_getBalance", [owner, "latest"]));
      const sent = option.actions.find((action) => action.data.method === "eth_sendTransaction");
      if (sent === undefined) return balance === undefined ? {} : { balance };
      const gas = hex(await ask("eth_estimateGas", JSON.parse(sent.data.params)));
      const price = hex(await ask("eth_gasPrice"));
      const fee = gas !== undefined && price !== undefined ? gas * price : undefined;
      return { ...(balance === undefined ? {} : { balance }), ...(fee === undefined ? {} : { fee }) };
    },
    watch(listener) {
      provider.on?.("accountsChanged", listener);
      return () => provider.removeListener?.("accountsChanged", listener);
    },
  };
}
