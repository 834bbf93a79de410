// Follows one payment: updates its status, and shows a link to the other changes.
import {replacePill} from "./pills.js";

/** @typedef {{status: string, isFinal: boolean}} State */

const section = document.getElementById("payment");
const holder = document.getElementById("state");
const again = document.getElementById("again");
const address = section?.dataset["events"];

if (address && holder && again) {
  const source = new EventSource(address);
  source.addEventListener("status", (event) => {
    /** @type {State} */
    const state = JSON.parse(event.data);
    if (replacePill(holder, state.status)) again.hidden = false;
    if (state.isFinal) source.close();
  });
}
