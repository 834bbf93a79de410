// The live checkout page: its data and texts, the payment's status by a stream or by polling, and
// the time left. Other scripts use what it exports. It imports nothing, so that the first load is
// one script: the page's data names those that are loaded on demand.

/**
 * @typedef {{id: string, name: string, coin: string, coinName: string, node: string, explorer: string}} Chain
 * @typedef {{id: string, status: string, isFinal: boolean, expiresAt: number, now: number, pollInMs: number, appId: string, merchant: string, waits: boolean, scripts: {wallets: string, redirect: string, deposits: string}, language: string, chains: Chain[]}} PageData
 * @typedef {{status: string, isFinal: boolean, pollInMs?: number, expiresAt: number, isDelayed?: boolean, usualS?: number, confirmations?: {seen: number, needed: number}, received?: string}} State
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

/** Returns a duration in the language of the page, such as "15 seconds" or "3 minutes". @param {number} seconds */
export function duration(seconds) {
  const [count, unit] = seconds < 90 ? [seconds, "second"] : [Math.round(seconds / 60), "minute"];
  return new Intl.NumberFormat(pageData.language, { style: "unit", unit, unitDisplay: "long" }).format(count);
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

/** @param {string} id */
const find = (id) => document.getElementById(id);

/** Shows a note above the page; an empty text removes it. @param {string} text @param {boolean} [bad] */
function note(text, bad = false) {
  const place = find("note");
  if (place === null || place.textContent === text) return;
  place.textContent = text;
  place.classList.toggle("off", bad);
}

// the server's clock counts, not the buyer's
const ahead = pageData.now - Date.now();
let status = pageData.status;
let over = pageData.isFinal;
let lost = false;
// as the browser reports: an answer that was on its way proves no connection
let offline = false;
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
  progress(state);
  if (state.isFinal) void end();
}

/** @param {State} state */
function progress({ confirmations, isDelayed, usualS }) {
  const usual = find("usual");
  if (usual !== null && usual.hidden && usualS !== undefined) {
    usual.textContent = translate("usual", { time: duration(usualS) });
    usual.hidden = false;
  }
  const place = find("confirmations");
  const meter = find("meter");
  const delayed = find("delayed");
  if (place === null || delayed === null || !(meter instanceof HTMLProgressElement)) return;
  if (delayed.hidden === Boolean(isDelayed)) delayed.hidden = !isDelayed;
  if (confirmations === undefined) return;
  place.textContent = translate("confirmations", confirmations);
  meter.max = confirmations.needed;
  meter.value = confirmations.seen;
  meter.hidden = false;
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
  if (now && offline) return;
  if (now && lost) note("");
  if (!now) note(translate("offline"), true);
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
  document.addEventListener("click", async (event) => {
    const button = event.target instanceof Element ? event.target.closest("[data-copy]") : null;
    if (!(button instanceof HTMLElement)) return;
    try {
      await navigator.clipboard.writeText(button.dataset.copy ?? "");
      note(translate("copied"));
    } catch {
      const place = find(button.dataset.from ?? "");
      if (place !== null) getSelection()?.selectAllChildren(place);
    }
  });
}

function paying() {
  // on a phone the code is for other devices
  const code = find("code");
  if (code instanceof HTMLDetailsElement && matchMedia("(hover: none) and (pointer: coarse)").matches) code.open = false;
  // a wallet's own browser needs no link to its app
  const found = () => {
    document.documentElement.dataset.wallet = "";
  };
  addEventListener("eip6963:announceProvider", found);
  dispatchEvent(new Event("eip6963:requestProvider"));
  if (["ethereum", "solana", "phantom"].some((name) => name in window)) found();
  find("choose")?.addEventListener("click", async () => {
    try {
      const { begin } = await import(pageData.scripts.wallets);
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
if (over) {
  void import(pageData.scripts.redirect);
} else {
  copying();
  paying();
  ticking = setInterval(tick, 1000);
  tick();
  // a cut stream is noticed after seconds; the browser's offline event comes at once
  addEventListener("offline", () => {
    offline = true;
    connected(false);
  });
  addEventListener("online", () => {
    offline = false;
    void poll();
  });
  listen();
  if (status === "processing") schedulePoll();
  if (find("arrived") !== null) void import(pageData.scripts.deposits);
  // a page from the browser's cache can be out of date
  addEventListener("pageshow", (event) => event.persisted && void poll());
}
