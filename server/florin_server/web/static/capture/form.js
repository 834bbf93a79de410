/**
 * The form for data about a buyer: tells the wallet how it ended, clears the address of what is
 * personal, and hands the form in such that nothing written is lost when a connection fails.
 *
 * It listens to nobody: there is no message that a frame or another window could send it.
 */

// what a page is opened again by; data that a wallet put into the address is none of it
const KEPT = ["pid", "t", "lang", "theme", "themeVariables"];
const WAIT_MS = 30_000;

/**
 * Every way in which wallets listen, each of which may be missing or fail.
 * @typedef {{
 *   ReactNativeWebView?: {postMessage: (text: string) => void},
 *   AndroidWallet?: {onDataCollectionComplete: (text: string) => void},
 *   webkit?: {messageHandlers?: {payDataCollectionComplete?: {postMessage: (text: string) => void}}},
 * }} Wallet
 */

/** @param {string} text */
function tell(text) {
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
      // whoever listens there cannot keep the others from hearing it
    }
  }
}

/** What the wallet was told; the same is told once. */
let told = "";

/** After a page was loaded, or put in place of another. */
function settle() {
  const text = document.body.dataset["message"] ?? "";
  if (text && text !== told) {
    told = text;
    tell(text);
  }
  document.getElementById("faults")?.focus();
}

function clearAddress() {
  const given = new URLSearchParams(location.search);
  const kept = new URLSearchParams();
  for (const name of KEPT) {
    const value = given.get(name);
    if (value !== null) {
      kept.set(name, value);
    }
  }
  const query = kept.toString();
  history.replaceState(null, "", query ? `?${query}` : location.pathname);
}

/**
 * Puts a page of the same host in place of this one.
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

/** True while an answer is awaited: what is pressed meanwhile is pressed once. */
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
  const shown = document.getElementById("trouble");
  if (shown) {
    shown.hidden = false;
    shown.scrollIntoView({ block: "nearest" });
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
    // what is no page of ours comes from in between; and whoever asks too often tries again later
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
  const shown = document.getElementById("trouble");
  if (shown) {
    shown.hidden = true;
  }
  request.send(body);
}

document.addEventListener("submit", (event) => {
  // a browser that does not say which button was pressed sends the form itself
  if (event.target instanceof HTMLFormElement && "submitter" in event) {
    event.preventDefault();
    if (!waiting) {
      handIn(event.target, event.submitter);
    }
  }
});

clearAddress();
settle();
