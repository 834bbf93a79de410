// Updates the statuses in an open table, and reports new payments.
import {readWord, replacePill} from "./pills.js";
import {translate} from "./texts.js";

/** @typedef {{id: string, status: string}} Row */

const EVERY_MS = 5000;
// long lists take longer: an open page keeps the service busy for at most a fiftieth of the time
const REST_FACTOR = 50;
const table = document.getElementById("payments");
const notice = document.getElementById("notice");

/** @param {string} text */
function announce(text) {
  if (notice && notice.textContent !== text) notice.textContent = text;
}

/** @param {Row[]} rows */
function show(rows) {
  let unknown = 0;
  for (const row of rows) {
    const cell = table?.querySelector(`tr[data-id="${CSS.escape(row.id)}"] .now`);
    if (!cell) {
      unknown += 1;
    } else if (replacePill(cell, row.status)) {
      announce(translate("payment_changed", {status: readWord(cell)}));
    }
  }
  if (unknown) announce(translate("new_payments"));
}

/** @param {string} address */
async function poll(address) {
  if (document.hidden) return true;
  try {
    const response = await fetch(address, {credentials: "same-origin", cache: "no-store"});
    if (response.status === 401) {
      announce(translate("session_ended"));
      return false;
    }
    if (response.ok) show(await response.json());
  } catch {
    announce(translate("unreachable"));
  }
  return true;
}

const address = table?.dataset["rows"];
if (address) {
  const pollAgain = async () => {
    const startedAt = Date.now();
    const isSignedIn = await poll(address);
    const restMs = Math.max(EVERY_MS, REST_FACTOR * (Date.now() - startedAt));
    if (isSignedIn) setTimeout(pollAgain, restMs);
  };
  setTimeout(pollAgain, EVERY_MS);
}
