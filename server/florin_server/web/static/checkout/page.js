// What the scripts of the checkout page share: the page's data, its texts, and whether a wallet of
// this browser sent something. It imports nothing.

/**
 * @typedef {{id: string, name: string, coin: string, coinName: string, node: string, explorer: string}} Chain
 * @typedef {{id: string, status: string, isFinal: boolean, expiresAt: number, now: number, pollInMs: number, appId: string, merchant: string, waits: boolean, language: string, chains: Chain[]}} PageData
 * @typedef {{status: string, isFinal: boolean, pollInMs?: number, expiresAt: number, confirmations?: {seen: number, needed: number}}} State
 */

/** @param {string} id */
const readData = (id) => JSON.parse(document.getElementById(id)?.textContent ?? "{}");

/** @type {PageData} */
export const pageData = readData("page-data");
/** @type {Record<string, string>} */
const texts = readData("texts");

/**
 * Returns a text with its values; the direction of a value does not affect its surroundings.
 * @param {string} key
 * @param {Record<string, string | number>} [values]
 */
export function translate(key, values = {}) {
  return (texts[key] ?? key).replace(/\{(\w+)\}/g, (_, name) => `\u2068${values[name] ?? ""}\u2069`);
}

/** Returns a duration in the language of the page, such as "15 seconds". @param {number} seconds */
export function duration(seconds) {
  const unit = /** @type {const} */ ({ style: "unit", unit: "second", unitDisplay: "long" });
  return new Intl.NumberFormat(pageData.language, unit).format(seconds);
}

const SENT = `florin.sent.${pageData.id}`;

/** Remembers for later pages that a wallet of this browser signed or sent something. */
export function noteSent() {
  try {
    sessionStorage.setItem(SENT, "1");
  } catch {
    // without storage, the server still knows what was submitted
  }
}

/** Returns true if a wallet of this browser signed or sent something for this payment. */
export function hasSent() {
  try {
    return sessionStorage.getItem(SENT) !== null;
  } catch {
    return false;
  }
}
