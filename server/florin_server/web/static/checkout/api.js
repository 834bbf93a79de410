// Calls of the documented API for wallets, with the page's own public app id.

import { pageData } from "./page.js";

/**
 * @typedef {{value: string, display: {assetSymbol: string, decimals: number, networkName?: string | null}}} Amount
 * @typedef {{type: string, data: {chain_id: string, method: string, params: string, data: string}}} Action
 * @typedef {{id: string, account: string, amount: Amount & {unit: string}, etaS: number, actions: Action[], collectData: {url: string} | null}} Option
 */

/** An error of the API: `code` is documented or "unreachable"; `reason` adds a detail. */
export class ApiError extends Error {
  /** @param {string} code @param {string} [reason] */
  constructor(code, reason = "") {
    super(code);
    this.code = code;
    this.reason = reason;
  }
}

// each tab is a client of its own
const client = crypto.randomUUID();

/**
 * @param {string} verb
 * @param {object} body
 * @returns {Promise<any>}
 */
async function post(verb, body) {
  let response;
  let content;
  try {
    response = await fetch(`/v1/gateway/payment/${pageData.id}/${verb}`, {
      method: "POST",
      cache: "no-store",
      headers: { "Content-Type": "application/json", "App-Id": pageData.appId, "Client-Id": client, "Pay-Version": "2026-02-18" },
      body: JSON.stringify(body),
    });
    content = await response.json();
  } catch {
    throw new ApiError("unreachable");
  }
  if (response.ok) return content;
  throw new ApiError(response.status >= 500 ? "unreachable" : String(content.code), String(content.details?.reason ?? ""));
}

/** Returns the options of accounts (CAIP-10). @param {string[]} accounts @returns {Promise<Option[]>} */
export async function options(accounts) {
  return (await post("options", { accounts })).options;
}

/** Returns the actions of an option, with its builds resolved. @param {Option} option @returns {Promise<Action[]>} */
export async function actions(option) {
  const resolved = [];
  for (const action of option.actions) {
    if (action.type === "build") {
      const fetched = await post("fetch", { optionId: option.id, data: action.data.data });
      resolved.push(...fetched.actions);
    } else {
      resolved.push(action);
    }
  }
  return resolved;
}

/** Submits a wallet's answers; repeating the call only returns the status.
 * @param {Option} option @param {string[]} outputs
 * @returns {Promise<import("./page.js").State>} */
export function confirm(option, outputs) {
  const results = outputs.map((output) => ({ type: "walletRpc", data: [output] }));
  return post("confirm", { optionId: option.id, results });
}
