// Wallets of EVM chains in this browser: found by EIP-6963, called by EIP-1193.

import { canBundle, readBundle, sendBundle } from "./bundles.js";
import { pageData } from "./page.js";

/**
 * @typedef {{request(call: {method: string, params?: unknown[]}): Promise<unknown>, on?(event: string, listener: () => void): void, removeListener?(event: string, listener: () => void): void}} Provider
 * @typedef {import("./api.js").Option} Option
 * @typedef {import("./api.js").Action} Action
 * @typedef {{balance?: bigint, fee?: bigint}} Facts
 * @typedef {{name: string, icon: string, accounts(): Promise<string[]>, ready(option: Option): Promise<void>, run(action: Action): Promise<string>, canBundle?(option: Option): Promise<boolean>, sendBundle?(option: Option, actions: Action[]): Promise<string | undefined>, readBundle?(id: string): Promise<import("./bundles.js").Outcome>, facts(option: Option): Promise<Facts>, watch(listener: () => void): () => void}} Wallet
 */

/** An error of a wallet, with the key of its text. */
export class WalletError extends Error {
  /** @param {string} key @param {Record<string, string>} [values] */
  constructor(key, values = {}) {
    super(key);
    this.key = key;
    this.values = values;
  }
}

const ACCOUNTS_MAX = 5;
// EIP-1193, ethers, WalletConnect
const DECLINED = ["4001", "ACTION_REJECTED", "5000"];
// EIP-3326
const UNKNOWN_CHAIN = ["4902"];
// generic codes, for which the text decides
const VAGUE = ["", "-32603", "-32000"];
const DECLINED_TEXT =
  /\buser\b.{0,40}\b(rejected|denied|declined|cancell?ed|refused|disapproved)\b|\b(rejected|denied|declined|cancell?ed|refused)\b.{0,20}\bby (the )?user\b|^(the )?(request|signature|transaction|message)( request)? (was )?(rejected|declined|cancell?ed|denied)\.?$/i;
const UNKNOWN_CHAIN_TEXT = /unrecogni[sz]ed chain|wallet_addEthereumChain/i;
// wallets wrap errors of other programs, rarely more than once
const WRAPPERS_MAX = 4;
// some wallets answer a switch before they have switched
const SWITCH_MS = 10_000;
const SWITCH_LOOK_MS = 250;
const BALANCE_OF = "0x70a08231";

const providers = new Set();

/** Reports each wallet once, also if it is called again. @param {(wallet: Wallet) => void} onWallet */
export function discover(onWallet) {
  addEventListener("eip6963:announceProvider", (event) => {
    const { info, provider } = /** @type {CustomEvent} */ (event).detail ?? {};
    if (typeof provider?.request !== "function" || providers.has(provider)) return;
    providers.add(provider);
    onWallet(wallet(String(info?.name ?? ""), String(info?.icon ?? ""), provider));
  });
  dispatchEvent(new Event("eip6963:requestProvider"));
  // at most one wallet does not announce itself
  const { ethereum } = /** @type {Window & {ethereum?: Provider}} */ (window);
  if (providers.size > 0 || typeof ethereum?.request !== "function") return;
  providers.add(ethereum);
  onWallet(wallet("", "", ethereum));
}

/** @param {unknown} value */
const texts = (value) => (Array.isArray(value) ? value.filter((text) => typeof text === "string") : []);

/** @param {unknown} value */
const hex = (value) => (typeof value === "string" && /^0x[0-9a-f]{1,64}$/i.test(value) ? BigInt(value) : undefined);

/** Returns the id of a chain: hex by EIP-1193, or a number, as some wallets answer.
 * @param {unknown} value */
function chainNumber(value) {
  if (typeof value === "bigint" || (typeof value === "number" && Number.isSafeInteger(value))) return BigInt(value);
  return typeof value === "string" && /^[0-9]{1,20}$/.test(value) ? BigInt(value) : hex(value);
}

/** Returns an error and those that it wraps, the outermost first. @param {unknown} error */
function listParts(error) {
  const parts = [];
  /** @type {any} */
  let part = error;
  while (parts.length < WRAPPERS_MAX && part !== null && part !== undefined) {
    parts.push({ code: String(part.code ?? ""), text: String(part.message ?? part).slice(0, 500) });
    part = part.data?.originalError ?? part.data?.cause ?? part.error ?? part.cause ?? part.info?.error;
  }
  return parts;
}

/** Returns true if an error, or one that it wraps, has one of the codes, or the text if its code is
 * generic. @param {unknown} error @param {string[]} codes @param {RegExp} text */
const says = (error, codes, text) =>
  listParts(error).some((part) => codes.includes(part.code) || (VAGUE.includes(part.code) && text.test(part.text)));

/** Returns the first code that means something. @param {unknown} error */
const codeOf = (error) => listParts(error).find((part) => !VAGUE.includes(part.code))?.code ?? "";

/** Returns true if an error means that the buyer declined. @param {unknown} error */
export const isDeclined = (error) => says(error, DECLINED, DECLINED_TEXT);

/** @param {unknown} error */
function toWalletError(error) {
  if (error instanceof WalletError) return error;
  const { message } = /** @type {{message?: string}} */ (error ?? {});
  if (isDeclined(error)) return new WalletError("declined");
  return new WalletError("wallet_failed", { reason: String(message ?? error).slice(0, 200) });
}

/** @param {string} name @param {string} icon @param {Provider} provider @returns {Wallet} */
function wallet(name, icon, provider) {
  /** @param {string} method @param {unknown[]} [params] */
  const ask = async (method, params) => {
    try {
      return await provider.request(params ? { method, params } : { method });
    } catch (error) {
      throw toWalletError(error);
    }
  };
  /** @param {string} method @param {unknown[]} params */
  const askPlainly = (method, params) => provider.request({ method, params });
  const chainNow = async () => `eip155:${chainNumber(await ask("eth_chainId")) ?? 0n}`;

  /** Waits until the wallet is on a chain, for a bounded time; false if it does not get there.
   * @param {string} chain */
  async function arrived(chain) {
    const until = Date.now() + SWITCH_MS;
    for (;;) {
      if ((await chainNow()) === chain) return true;
      if (Date.now() >= until) return false;
      await new Promise((/** @type {(value?: unknown) => void} */ resolve) => {
        const go = () => {
          clearTimeout(timer);
          provider.removeListener?.("chainChanged", go);
          resolve();
        };
        const timer = setTimeout(go, SWITCH_LOOK_MS);
        provider.on?.("chainChanged", go);
      });
    }
  }

  /** Switches the wallet to a chain, and adds the chain first if needed.
   * @param {string} chain @param {string} number */
  async function change(chain, number) {
    const chainData = pageData.chains.find((entry) => entry.id === chain);
    const network = chainData?.name ?? chain;
    const chainId = `0x${BigInt(number).toString(16)}`;
    const toChain = { method: "wallet_switchEthereumChain", params: [{ chainId }] };
    const refused = (/** @type {unknown} */ error) =>
      new WalletError(isDeclined(error) ? "declined" : "switch_network", { network });
    try {
      await provider.request(toChain);
    } catch (error) {
      if (!says(error, UNKNOWN_CHAIN, UNKNOWN_CHAIN_TEXT)) throw refused(error);
      if (!chainData?.node || !chainData.coin) throw new WalletError("add_network", { network, number });
      const added = {
        chainId,
        chainName: network,
        nativeCurrency: { name: chainData.coinName || chainData.coin, symbol: chainData.coin, decimals: 18 },
        rpcUrls: [chainData.node],
        ...(chainData.explorer ? { blockExplorerUrls: [chainData.explorer] } : {}),
      };
      try {
        await provider.request({ method: "wallet_addEthereumChain", params: [added] });
        // for some wallets, adding a chain does not switch to it
        if ((await chainNow()) !== chain) await provider.request(toChain);
      } catch (failed) {
        throw refused(failed);
      }
    }
    if (!(await arrived(chain))) throw new WalletError("switch_network", { network });
  }

  return {
    name,
    icon,
    async accounts() {
      const addresses = texts(await ask("eth_requestAccounts")).slice(0, ACCOUNTS_MAX);
      const chains = pageData.chains.filter((chain) => chain.id.startsWith("eip155:"));
      return addresses.flatMap((address) => chains.map((chain) => `${chain.id}:${address}`));
    },
    async ready(option) {
      const [namespace, number, address] = option.account.split(":");
      const chain = `${namespace}:${number}`;
      if ((await chainNow()) !== chain) await change(chain, number ?? "0");
      const now = texts(await ask("eth_accounts")).map((account) => account.toLowerCase());
      if (!now.includes((address ?? "").toLowerCase())) throw new WalletError("account_changed");
    },
    async run(action) {
      const output = await ask(action.data.method, JSON.parse(action.data.params));
      if (typeof output !== "string") throw new WalletError("wallet_failed", { reason: typeof output });
      return output;
    },
    canBundle(option) {
      const [, number, from] = option.account.split(":");
      return canBundle(askPlainly, from ?? "", BigInt(number ?? 0));
    },
    async sendBundle(option, actions) {
      const [, number, from] = option.account.split(":");
      try {
        return await sendBundle(askPlainly, from ?? "", BigInt(number ?? 0), actions, codeOf);
      } catch (error) {
        throw toWalletError(error);
      }
    },
    readBundle: (id) => readBundle(askPlainly, id, codeOf),
    async facts(option) {
      const chain = option.account.split(":").slice(0, 2).join(":");
      // a wallet reads only the chain that it is on
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
