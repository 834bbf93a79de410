// Follows one payment: updates its status, and shows a link to the other changes.
export {};

/** @typedef {{status: string, badgeClass: string, isFinal: boolean}} State */

const section = document.getElementById("payment");
const badge = document.querySelector("#state .badge");
const again = document.getElementById("again");
const address = section?.dataset["events"];

if (address && badge && again) {
  const source = new EventSource(address);
  source.addEventListener("status", (event) => {
    /** @type {State} */
    const state = JSON.parse(event.data);
    if (badge.textContent !== state.status) {
      badge.textContent = state.status;
      badge.className = `badge ${state.badgeClass}`;
      again.hidden = false;
    }
    if (state.isFinal) source.close();
  });
}
