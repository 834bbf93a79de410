// The documented API for wallets, as this page asks it: with the page's own public app id.

import { told } from "./checkout.js";

/**
 * @typedef {{value: string, display: {assetSymbol: string, decimals: number, networkName?: string | null}}} Amount
 * @typedef {{type: string, data: {chain_id: string, method: string, params: string, data: string}}} Action
 * @typedef {{id: string, account: string, amount: Amount & {unit: string}, etaS: number, actions: Action[], collectData: {url: string} | null}} Option
 */

/** A refusal: `code` is a documented one, or "unreachable"; `reason` says more about some. */
export class Refusal extends Error {
  /** @param {string} code @param {string} [reason] */
  constructor(code, reason = "") {
    super(code);
    this.code = code;
    this.reason = reason;
  }
}

// this tab is a client of its own
const client = crypto.randomUUID();

/**
 * @param {string} verb
 * @param {object} body
 * @returns {Promise<any>}
 */
async function post(verb, body) {
  let answer;
  let told_;
  try {
    answer = await fetch(`/v1/gateway/payment/${told.id}/${verb}`, {
      method: "POST",
      cache: "no-store",
      headers: { "Content-Type": "application/json", "App-Id": told.appId, "Client-Id": client, "Pay-Version": "2026-02-18" },
      body: JSON.stringify(body),
    });
    told_ = await answer.json();
  } catch {
    throw new Refusal("unreachable");
  }
  if (answer.ok) return told_;
  throw new Refusal(answer.status >= 500 ? "unreachable" : String(told_.code), String(told_.details?.reason ?? ""));
}

/** What accounts (CAIP-10) can pay with. @param {string[]} accounts @returns {Promise<Option[]>} */
export async function options(accounts) {
  return (await post("options", { accounts })).options;
}

/** The actions of an option, its builds resolved. @param {Option} option @returns {Promise<Action[]>} */
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

/** Hands in what a wallet answered; the same again is only a question.
 * @param {Option} option @param {string[]} outputs
 * @returns {Promise<import("./checkout.js").State>} */
export function confirm(option, outputs) {
  const results = outputs.map((output) => ({ type: "walletRpc", data: [output] }));
  return post("confirm", { optionId: option.id, results });
}
