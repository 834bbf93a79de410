// Replaces the pill of a state by one of those that the page carries in a template.

/**
 * Shows a state, and returns true if another one was shown before.
 * @param {Element} holder
 * @param {string} state
 */
export function replacePill(holder, state) {
  const pill = `.pill[data-state="${CSS.escape(state)}"]`;
  if (holder.querySelector(pill)) return false;
  const template = document.getElementById("pills");
  if (!(template instanceof HTMLTemplateElement)) return false;
  const replacement = template.content.querySelector(pill);
  if (!replacement) return false;
  holder.replaceChildren(replacement.cloneNode(true));
  return true;
}

/** Returns the word of the state that is shown. @param {Element} holder */
export function readWord(holder) {
  return holder.querySelector(".pill .word")?.textContent ?? "";
}
