// The end of a payment: notifies apps that show this page, and returns buyers to the shop.

import { duration, hasSent, pageData, translate } from "./page.js";

const SECONDS = 3;
const KEY = `florin.stay.${pageData.id}`;

/** @typedef {Window & {ReactNativeWebView?: {postMessage(text: string): void}}} InApp */

function tellApp() {
  const paid = pageData.status === "succeeded";
  const message = paid
    ? { type: "PAY_SUCCESS", success: true }
    : { type: "PAY_FAILURE", success: false, error: pageData.status };
  try {
    /** @type {InApp} */ (window).ReactNativeWebView?.postMessage(JSON.stringify(message));
  } catch {
    // an app that accepts no message still shows the page
  }
}

/** Returns true if the buyer stayed or was redirected before: a second visit does not redirect. */
function stays() {
  try {
    if (sessionStorage.getItem(KEY) !== null) return true;
    sessionStorage.setItem(KEY, "1");
  } catch {
    // without storage, the buyer can choose again to stay
  }
  return false;
}

function leave() {
  const place = document.getElementById("away");
  const link = document.getElementById("back");
  const count = document.getElementById("count");
  const stay = document.getElementById("stay");
  const said = document.getElementById("said");
  if (place === null || count === null || stay === null || said === null || !(link instanceof HTMLAnchorElement)) return;
  if (pageData.status !== "succeeded" && pageData.status !== "failed") return;
  // while the buyer's money can still be on its way, the page about it stays open
  if (pageData.waits || (pageData.status === "failed" && hasSent())) return;
  if (stays()) return;
  let left = SECONDS;
  const text = () => translate("redirect", { merchant: pageData.merchant, time: duration(left) });
  const show = () => {
    count.textContent = text();
  };
  const counting = setInterval(() => {
    left -= 1;
    if (left > 0) return show();
    clearInterval(counting);
    location.replace(link.href);
  }, 1000);
  stay.addEventListener("click", () => {
    clearInterval(counting);
    place.hidden = true;
    said.textContent = "";
    link.focus();
  });
  show();
  place.hidden = false;
  // screen readers hear it once, and not every second
  said.textContent = text();
}

tellApp();
leave();
