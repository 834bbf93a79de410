// What happens when a payment is over: apps that show this page are told, and buyers go back.

import { hasSent, say, told } from "./checkout.js";

const SECONDS = 3;
const KEY = `florin.stay.${told.id}`;

/** @typedef {Window & {ReactNativeWebView?: {postMessage(text: string): void}}} InApp */

function tellApp() {
  const paid = told.status === "succeeded";
  const message = paid
    ? { type: "PAY_SUCCESS", success: true }
    : { type: "PAY_FAILURE", success: false, error: told.status };
  try {
    /** @type {InApp} */ (window).ReactNativeWebView?.postMessage(JSON.stringify(message));
  } catch {
    // an app that cannot be told has the page in front of it
  }
}

/** Whoever stayed, or was sent on before, is not sent on by looking at the receipt again. */
function stays() {
  try {
    if (sessionStorage.getItem(KEY) !== null) return true;
    sessionStorage.setItem(KEY, "1");
  } catch {
    // without a memory the buyer may say again that it stays
  }
  return false;
}

function leave() {
  const place = document.getElementById("away");
  const link = document.getElementById("back");
  const count = document.getElementById("count");
  const stay = document.getElementById("stay");
  if (place === null || count === null || stay === null || !(link instanceof HTMLAnchorElement)) return;
  // where the buyer's money may still be on its way, what the page says about it stays in sight
  if (told.status !== "succeeded" && (told.waits || hasSent())) return;
  if (stays()) return;
  let left = SECONDS;
  const show = () => {
    count.textContent = say("redirect", { merchant: told.merchant, seconds: left });
  };
  const counting = setInterval(() => {
    left -= 1;
    if (left > 0) return show();
    clearInterval(counting);
    location.replace(link.href);
  }, 1000);
  link.textContent = say("continue");
  stay.addEventListener("click", () => {
    clearInterval(counting);
    place.hidden = true;
    link.focus();
  });
  show();
  place.hidden = false;
}

tellApp();
leave();
