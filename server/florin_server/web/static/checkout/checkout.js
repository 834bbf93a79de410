// The live checkout page: the payment's status by a stream or by polling, and the time left. Other
// scripts are loaded on demand.

import { pageData, translate } from "./page.js";

/** @typedef {import("./page.js").State} State */

/** @param {string} id */
const find = (id) => document.getElementById(id);

/** Shows a note; an empty text removes it. @param {string} text */
function note(text) {
  const place = find("note");
  if (place !== null && place.textContent !== text) place.textContent = text;
}

// the server's clock counts, not the buyer's
const ahead = pageData.now - Date.now();
let status = pageData.status;
let over = pageData.isFinal;
let lost = false;
let warned = false;
/** @type {EventSource | undefined} */
let stream;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let next;
/** @type {ReturnType<typeof setInterval> | undefined} */
let ticking;

/** Shows a state. @param {State} state */
function apply(state) {
  if (over) return;
  connected(true);
  if (state.status !== status && !state.isFinal) {
    status = state.status;
    for (const view of document.querySelectorAll("[data-view]")) {
      if (view instanceof HTMLElement) view.hidden = view.dataset.view !== status;
    }
    schedulePoll(state.pollInMs);
  }
  const place = find("confirmations");
  if (place !== null && state.confirmations) place.textContent = translate("confirmations", state.confirmations);
  if (state.isFinal) void end();
}

/** Loads the page of the final state, with the receipt or the next step. */
async function end() {
  over = true;
  clearInterval(ticking);
  clearTimeout(next);
  stream?.close();
  try {
    // an offline browser would show its own error page
    if (!(await fetch(location.href, { method: "HEAD", cache: "no-store" })).ok) throw new Error();
    location.reload();
  } catch {
    connected(false);
    setTimeout(end, 2000);
  }
}

/** @param {boolean} now */
function connected(now) {
  if (now && lost) note("");
  if (!now) note(translate("offline"));
  lost = !now;
}

/** Polls the status after a delay, and again until a stream reports it.
 * @param {number} [ms] */
function schedulePoll(ms = pageData.pollInMs) {
  clearTimeout(next);
  // spread the polls of buyers who lost the service at the same moment
  next = setTimeout(poll, Math.max(ms, 1000) * (1 + Math.random() / 4));
}

async function poll() {
  let wait = 2000;
  try {
    const response = await fetch(`/${pageData.id}/state`, { cache: "no-store" });
    if (response.ok) {
      /** @type {State} */
      const state = await response.json();
      wait = state.pollInMs ?? wait;
      apply(state);
    } else {
      wait = 1000 * Number(response.headers.get("retry-after") ?? 5);
    }
  } catch {
    connected(false);
  }
  // a stream reports the final status, but no confirmations
  if (!over && (stream === undefined || status === "processing")) schedulePoll(wait);
}

function listen() {
  let failed = 0;
  const opened = new EventSource(`/${pageData.id}/events`);
  stream = opened;
  opened.addEventListener("status", (event) => {
    failed = 0;
    apply(JSON.parse(event.data));
  });
  opened.onopen = () => connected(true);
  opened.onerror = () => {
    if (over) return;
    failed += 1;
    if (opened.readyState !== EventSource.CLOSED && failed < 3) return;
    opened.close();
    stream = undefined;
    void poll();
  };
}

function tick() {
  const place = find("left");
  const left = Math.floor((pageData.expiresAt * 1000 - Date.now() - ahead) / 1000);
  if (left <= 0) {
    clearInterval(ticking);
    void poll();
  }
  if (place === null || left > 86_400) return;
  const [hours, minutes, seconds] = [Math.floor(left / 3600), Math.floor(left / 60) % 60, left % 60];
  const parts = [...(hours > 0 ? [hours] : []), minutes, seconds].map((part) => String(part).padStart(2, "0"));
  place.textContent = translate("left", { time: left > 0 ? parts.join(":") : "00:00" });
  if (left > 0 && left <= 60 && !warned && status === "requires_action") {
    warned = true;
    note(translate("last_minute"));
  }
}

function copying() {
  const button = find("copy");
  if (button === null) return;
  button.hidden = false;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(find("link")?.textContent ?? "");
      note(translate("copied"));
    } catch {
      const place = find("link");
      if (place !== null) getSelection()?.selectAllChildren(place);
    }
  });
}

function paying() {
  const button = find("choose");
  const place = find("here");
  if (button === null || place === null) return;
  place.hidden = false;
  button.addEventListener("click", async () => {
    try {
      const { begin } = await import("./wallets.js");
      button.hidden = true;
      begin(apply);
    } catch {
      connected(false);
    }
  });
}

for (const place of document.querySelectorAll("time[datetime]")) {
  const zoned = { dateStyle: /** @type {const} */ ("medium"), timeStyle: /** @type {const} */ ("short") };
  const at = new Date(place.getAttribute("datetime") ?? "");
  place.textContent = new Intl.DateTimeFormat(pageData.language, zoned).format(at);
}
const printing = find("print");
if (printing !== null) {
  printing.hidden = false;
  printing.addEventListener("click", () => print());
}
if (over) {
  void import("./redirect.js");
} else {
  copying();
  paying();
  ticking = setInterval(tick, 1000);
  tick();
  // a cut stream is noticed after seconds; the browser's offline event comes at once
  addEventListener("offline", () => connected(false));
  addEventListener("online", () => void poll());
  listen();
  if (status === "processing") schedulePoll();
  // a page from the browser's cache can be out of date
  addEventListener("pageshow", (event) => event.persisted && void poll());
}
