/**
 * The form for buyer data: reports the result to the wallet, removes personal data from the
 * address, and submits the form so that no entry is lost when the connection fails.
 *
 * It accepts no messages from frames or other windows.
 */

// the parameters that open a page again; data that a wallet put into the address is removed
const KEPT = ["pid", "t", "lang", "theme", "themeVariables"];
const WAIT_MS = 30_000;

/**
 * The channels of wallets, each of which can be missing or fail.
 * @typedef {{
 *   ReactNativeWebView?: {postMessage: (text: string) => void},
 *   AndroidWallet?: {onDataCollectionComplete: (text: string) => void},
 *   webkit?: {messageHandlers?: {payDataCollectionComplete?: {postMessage: (text: string) => void}}},
 * }} Wallet
 */

/** @param {string} text */
function notifyWallet(text) {
  const wallet = /** @type {Wallet} */ (/** @type {unknown} */ (window));
  /** @type {Array<() => void>} */
  const ways = [
    () => wallet.ReactNativeWebView?.postMessage(text),
    () => wallet.AndroidWallet?.onDataCollectionComplete(text),
    () => wallet.webkit?.messageHandlers?.payDataCollectionComplete?.postMessage(text),
    () => window.opener?.postMessage(text, "*"),
    () => window.parent !== window && window.parent.postMessage(text, "*"),
  ];
  for (const way of ways) {
    try {
      way();
    } catch {
      // a failing channel does not stop the others
    }
  }
}

/** The last message to the wallet; an equal one is not sent again. */
let lastMessage = "";

/** Runs after a page was loaded, or replaced another. */
function settle() {
  const text = document.body.dataset["message"] ?? "";
  if (text && text !== lastMessage) {
    lastMessage = text;
    notifyWallet(text);
  }
  document.getElementById("faults")?.focus();
}

function clearAddress() {
  const parameters = new URLSearchParams(location.search);
  const remaining = new URLSearchParams();
  for (const name of KEPT) {
    const value = parameters.get(name);
    if (value !== null) {
      remaining.set(name, value);
    }
  }
  const query = remaining.toString();
  history.replaceState(null, "", query ? `?${query}` : location.pathname);
}

/**
 * Replaces this page by another one of the same host.
 * @param {Document} page
 */
function show(page) {
  const from = page.documentElement;
  const root = document.documentElement;
  root.lang = from.lang;
  root.dir = from.dir;
  document.title = page.title;
  document.body.replaceWith(document.adoptNode(page.body));
  window.scrollTo(0, 0);
  settle();
}

/** True while waiting for an answer, so that a button works once. */
let waiting = false;

/** @param {boolean} now */
function wait(now) {
  waiting = now;
  for (const button of document.querySelectorAll("button")) {
    button.setAttribute("aria-disabled", String(now));
  }
}

function trouble() {
  wait(false);
  const notice = document.getElementById("trouble");
  if (notice) {
    notice.hidden = false;
    notice.scrollIntoView({ block: "nearest" });
  }
}

/**
 * @param {HTMLFormElement} form
 * @param {HTMLElement | null} pressed
 */
function handIn(form, pressed) {
  const body = new URLSearchParams();
  for (const [name, value] of new FormData(form)) {
    body.append(name, String(value));
  }
  if (pressed instanceof HTMLButtonElement && pressed.name) {
    body.append(pressed.name, pressed.value);
  }
  const request = new XMLHttpRequest();
  request.open("POST", location.pathname);
  request.responseType = "document";
  request.timeout = WAIT_MS;
  request.setRequestHeader("accept", "text/html");
  request.setRequestHeader("content-type", "application/x-www-form-urlencoded");
  request.onload = () => {
    // a page of another origin comes from a proxy; above the rate limit the buyer tries again later
    const page = request.response;
    const answered = request.status < 429 && page instanceof Document;
    if (answered && page.documentElement.lang && page.querySelector("main")) {
      wait(false);
      show(page);
    } else {
      trouble();
    }
  };
  request.onerror = trouble;
  request.ontimeout = trouble;
  wait(true);
  const notice = document.getElementById("trouble");
  if (notice) {
    notice.hidden = true;
  }
  request.send(body);
}

document.addEventListener("submit", (event) => {
  // a browser that does not report the pressed button submits the form itself
  if (event.target instanceof HTMLFormElement && "submitter" in event) {
    event.preventDefault();
    if (!waiting) {
      handIn(event.target, event.submitter);
    }
  }
});

clearAddress();
settle();
