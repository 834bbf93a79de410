// Updates the statuses in an open table, and reports new payments.
export {};

/** @typedef {{id: string, status: string, look: string}} Row */

const EVERY_MS = 5000;
// long lists take longer: an open page keeps the service busy for at most a fiftieth of the time
const REST = 50;
const table = document.getElementById("payments");
const news = document.getElementById("news");

/** @param {string} text */
function say(text) {
  if (news && news.textContent !== text) news.textContent = text;
}

/** @param {Row[]} rows */
function show(rows) {
  let unknown = 0;
  for (const row of rows) {
    const cell = table?.querySelector(`tr[data-id="${CSS.escape(row.id)}"] .state .badge`);
    if (!cell) {
      unknown += 1;
    } else if (cell.textContent !== row.status) {
      cell.textContent = row.status;
      cell.className = `badge ${row.look}`;
      say(`A payment changed to: ${row.status}.`);
    }
  }
  if (unknown) say("There are new payments. Reload the page.");
}

/** @param {string} address */
async function look(address) {
  if (document.hidden) return true;
  try {
    const answer = await fetch(address, {credentials: "same-origin", cache: "no-store"});
    if (answer.status === 401) {
      say("Your session has ended. Reload the page to sign in.");
      return false;
    }
    if (answer.ok) show(await answer.json());
  } catch {
    say("Florin does not respond. This page may be out of date.");
  }
  return true;
}

const address = table?.dataset["rows"];
if (address) {
  const turn = async () => {
    const begun = Date.now();
    if (await look(address)) setTimeout(turn, Math.max(EVERY_MS, REST * (Date.now() - begun)));
  };
  setTimeout(turn, EVERY_MS);
}
