// Several transactions with one approval (EIP-5792), if the wallet carries out all of them or none.

/**
 * @typedef {import("./api.js").Action} Action
 * @typedef {(method: string, params: unknown[]) => Promise<unknown>} Ask
 * @typedef {{hash: string} | "pending" | "failed" | "unknown"} Outcome
 */

// some wallets never answer a method that they do not know
const PATIENCE_MS = 2000;
const ALL_CHAINS = 0n;
// Refused before anything is sent: capability, chain, size, upgrade of the account, atomicity; the
// last two mean an unknown method (EIP-1193, JSON-RPC).
const ONE_BY_ONE = [5700, 5710, 5740, 5750, 5760, 4200, -32601];
const UNKNOWN_BUNDLE = 5730;
const KEY = "florin.bundle.";

// the ids of bundles by option: what was sent is followed, also by a page that is loaded again
/** @type {Map<string, string>} */
const sent = new Map();

/** Returns the id of the bundle that a wallet of this browser sent for an option.
 * @param {string} option @returns {string | undefined} */
export function findBundle(option) {
  try {
    return sent.get(option) ?? sessionStorage.getItem(KEY + option) ?? undefined;
  } catch {
    return sent.get(option);
  }
}

/** Remembers the bundle of an option; undefined forgets it. @param {string} option @param {string | undefined} id */
export function keepBundle(option, id) {
  try {
    if (id === undefined) sessionStorage.removeItem(KEY + option);
    else sessionStorage.setItem(KEY + option, id);
  } catch {
    // without storage, a page that is loaded again starts again; the contract pays an option once
  }
  if (id === undefined) sent.delete(option);
  else sent.set(option, id);
}

/** Returns true if actions are transactions that a wallet can send together. @param {Action[]} actions */
export const isBundle = (actions) =>
  actions.length > 1 && actions.every(({ data }) => data.method === "eth_sendTransaction" && data.chain_id === actions[0]?.data.chain_id);

/** Returns true if the wallet reports that it carries out all calls of a bundle or none.
 * @param {Ask} ask @param {string} from @param {bigint} chain */
export async function canBundle(ask, from, chain) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  try {
    const late = new Promise((resolve) => {
      timer = setTimeout(resolve, PATIENCE_MS);
    });
    const reported = await Promise.race([ask("wallet_getCapabilities", [from, [`0x${chain.toString(16)}`]]), late]);
    /** @type {[string, any][]} */
    const entries = Object.entries(reported ?? {});
    const find = (/** @type {bigint} */ id) => entries.find(([key]) => /^0x[0-9a-f]{1,64}$/i.test(key) && BigInt(key) === id)?.[1]?.atomic;
    const { status } = find(chain) ?? find(ALL_CHAINS) ?? {};
    // "ready": the wallet offers to upgrade the account first
    return status === "supported" || status === "ready";
  } catch {
    return false;
  } finally {
    clearTimeout(timer);
  }
}

/** Sends actions as a bundle. Returns its id, or undefined if the wallet refused to bundle and sent nothing.
 * @param {Ask} ask @param {string} from @param {bigint} chain @param {Action[]} actions @param {(error: unknown) => string} codeOf
 * @returns {Promise<string | undefined>} */
export async function sendBundle(ask, from, chain, actions, codeOf) {
  const calls = actions.map((action) => {
    const [{ to, data, value }] = JSON.parse(action.data.params);
    return { to, data, ...(value === undefined ? {} : { value }) };
  });
  const bundle = { version: "2.0.0", from, chainId: `0x${chain.toString(16)}`, atomicRequired: true, calls };
  try {
    const answer = /** @type {any} */ (await ask("wallet_sendCalls", [bundle]));
    // earlier versions of the standard answered the id alone
    return String(typeof answer === "string" ? answer : (answer?.id ?? ""));
  } catch (error) {
    if (ONE_BY_ONE.map(String).includes(codeOf(error))) return undefined;
    throw error;
  }
}

/** Returns what a wallet reports about a bundle. @param {Ask} ask @param {string} id @param {(error: unknown) => string} codeOf
 * @returns {Promise<Outcome>} */
export async function readBundle(ask, id, codeOf) {
  let reported;
  try {
    reported = /** @type {any} */ (await ask("wallet_getCallsStatus", [id]));
  } catch (error) {
    // the wallet may answer the next time
    return codeOf(error) === String(UNKNOWN_BUNDLE) ? "unknown" : "pending";
  }
  const hash = reported?.receipts?.at?.(-1)?.transactionHash;
  const isHash = typeof hash === "string" && /^0x[0-9a-f]{64}$/i.test(hash);
  const status = reported?.status === "CONFIRMED" ? 200 : Number(reported?.status);
  // 400: never sent; 500: reverted as a whole. 600: some calls were made, and the chain shows which
  if ((status >= 400 && status < 600) || (status >= 600 && !isHash)) return "failed";
  return status >= 200 && isHash ? { hash } : "pending";
}
