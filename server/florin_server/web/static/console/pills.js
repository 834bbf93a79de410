// Replaces the pill of a state by one of those that the page carries in a template.

/**
 * Shows a state, and returns true if another one was shown before.
 * @param {Element} holder
 * @param {string} word
 */
export function replacePill(holder, word) {
  if (holder.querySelector(".pill .word")?.textContent === word) return false;
  const template = document.getElementById("pills");
  if (!(template instanceof HTMLTemplateElement)) return false;
  const pill = template.content.querySelector(`[data-status="${CSS.escape(word)}"] .pill`);
  if (!pill) return false;
  holder.replaceChildren(pill.cloneNode(true));
  return true;
}
