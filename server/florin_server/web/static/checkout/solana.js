// Wallets of Solana in this browser, by the Wallet Standard. Transactions are opaque bytes: they go
// to the wallet, and its signed bytes go to the server.

import { WalletError } from "./evm.js";
import { pageData } from "./page.js";

/**
 * @typedef {{address: string, chains: readonly string[]}} Account
 * @typedef {{connect(): Promise<{accounts: readonly Account[]}>}} Connect
 * @typedef {{signTransaction(input: object): Promise<readonly {signedTransaction: Uint8Array}[]>}} Sign
 * @typedef {{on(event: string, listener: () => void): () => void}} Events
 * @typedef {{name: string, icon: string, chains: readonly string[], accounts: readonly Account[], features: Record<string, unknown>}} Standard
 * @typedef {import("./evm.js").Wallet} Wallet
 */

const SIGN = "solana:signTransaction";
// names of clusters in wallets, by their genesis
const CLUSTERS = new Map([
  ["solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp", "solana:mainnet"],
  ["solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1", "solana:devnet"],
  ["solana:4uhcVJyU9pJkvQyS88uRDiswHXSCkY3z", "solana:testnet"],
]);

const registered = new Set();

/** Reports each wallet once, also if it is called again. @param {(wallet: Wallet) => void} onWallet */
export function discover(onWallet) {
  if (!pageData.chains.some((chain) => chain.id.startsWith("solana:"))) return;
  const api = Object.freeze({
    /** @param {Standard[]} wallets */
    register(...wallets) {
      for (const standard of wallets) {
        if (registered.has(standard) || !(SIGN in (standard?.features ?? {}))) continue;
        registered.add(standard);
        onWallet(wallet(standard));
      }
      return () => undefined;
    },
  });
  addEventListener("wallet-standard:register-wallet", (event) => {
    const { detail } = /** @type {CustomEvent} */ (event);
    if (typeof detail === "function") detail(api);
  });
  dispatchEvent(new CustomEvent("wallet-standard:app-ready", { detail: api }));
}

/** @param {unknown} error */
function toWalletError(error) {
  const { code, message, name } = /** @type {{code?: number, message?: string, name?: string}} */ (error ?? {});
  if (code === 4001 || /reject|declin|denied/i.test(`${name} ${message}`)) return new WalletError("declined");
  return new WalletError("wallet_failed", { reason: String(message ?? error).slice(0, 200) });
}

/** @param {Standard} standard @returns {Wallet} */
function wallet(standard) {
  /** @type {Account | undefined} */
  let chosen;
  return {
    name: String(standard.name),
    icon: String(standard.icon),
    async accounts() {
      const connect = /** @type {Connect | undefined} */ (standard.features["standard:connect"]);
      try {
        await connect?.connect();
      } catch (error) {
        throw toWalletError(error);
      }
      const chains = pageData.chains.filter((chain) => chain.id.startsWith("solana:"));
      return standard.accounts
        .slice(0, 5)
        .flatMap((account) => chains.map((chain) => `${chain.id}:${account.address}`));
    },
    async ready(option) {
      const address = option.account.split(":")[2];
      chosen = standard.accounts.find((account) => account.address === address);
      if (chosen === undefined) throw new WalletError("account_changed");
    },
    async run(action) {
      const sign = /** @type {Sign} */ (standard.features[SIGN]);
      const [{ transaction }] = JSON.parse(action.data.params);
      const chain = CLUSTERS.get(action.data.chain_id);
      const bytes = Uint8Array.from(atob(transaction), (letter) => letter.charCodeAt(0));
      try {
        const [signed] = await sign.signTransaction({ account: chosen, transaction: bytes, ...(chain ? { chain } : {}) });
        if (!(signed?.signedTransaction instanceof Uint8Array)) throw new Error("no transaction");
        return btoa(String.fromCharCode(...signed.signedTransaction));
      } catch (error) {
        throw toWalletError(error);
      }
    },
    facts: () => Promise.resolve({}),
    watch(listener) {
      const events = /** @type {Events | undefined} */ (standard.features["standard:events"]);
      return events?.on("change", listener) ?? (() => undefined);
    },
  };
}
