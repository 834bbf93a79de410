// What arrived at the payment's address so far, which the page's stream does not report: its
// payment changes only once all of it is there.

import { pageData } from "./page.js";

const WAIT_MS = 2000;

/** @type {string | undefined} */
let shown = document.getElementById("arrived")?.dataset.received;

/** Shows what the server says of the address now. */
function show() {
  // parsed by the browser as a page: the policy allows no other way from a text to elements
  const request = new XMLHttpRequest();
  request.responseType = "document";
  request.onload = () => {
    // each in its place, so that screen readers announce what changed
    for (const id of ["arrived", "send-to"]) {
      const content = request.responseXML?.getElementById(id);
      if (content) document.getElementById(id)?.replaceChildren(...content.childNodes);
    }
  };
  request.open("GET", location.href);
  request.send();
}

async function look() {
  let wait = Math.max(pageData.pollInMs, WAIT_MS);
  try {
    const response = await fetch(`/${pageData.id}/state`, { cache: "no-store" });
    if (response.ok) {
      /** @type {import("./page.js").State} */
      const state = await response.json();
      // the page itself shows all later states
      if (state.status !== "requires_action") return;
      if (state.received !== undefined && state.received !== shown) {
        shown = state.received;
        show();
      }
    } else {
      wait = 1000 * Number(response.headers.get("retry-after") ?? 5);
    }
  } catch {
    // the page itself shows that it has no connection
  }
  setTimeout(look, wait);
}

setTimeout(look, WAIT_MS);
