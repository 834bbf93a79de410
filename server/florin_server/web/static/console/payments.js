// Keeps the statuses of an open table as they are, and says when there are new payments.
export {};

/** @typedef {{id: string, status: string, look: string}} Row */

const EVERY_MS = 5000;
// of long lists a look takes long: no open page has the service busy for more than a fiftieth
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
      say(`A payment is now: ${row.status}.`);
    }
  }
  if (unknown) say("There are new payments: load the page again.");
}

/** @param {string} address */
async function look(address) {
  if (document.hidden) return true;
  try {
    const answer = await fetch(address, {credentials: "same-origin", cache: "no-store"});
    if (answer.status === 401) {
      say("Your session has ended: load the page again to sign in.");
      return false;
    }
    if (answer.ok) show(await answer.json());
  } catch {
    say("The service does not answer. What you see may be old.");
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
