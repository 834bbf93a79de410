// Opens the commands with Ctrl or ⌘ and K, filters them, and runs one.
export {};

/** @type {HTMLDialogElement | null} */
const palette = document.querySelector("#palette");
const input = palette?.querySelector("input");
const options = [...(palette?.querySelectorAll("li") ?? [])];
/** @type {HTMLLIElement | undefined} */
let active;

/** @param {HTMLLIElement | undefined} option */
function activate(option) {
  active?.setAttribute("aria-selected", "false");
  option?.setAttribute("aria-selected", "true");
  option?.scrollIntoView({block: "nearest"});
  input?.setAttribute("aria-activedescendant", option?.id ?? "");
  active = option;
}

function filter() {
  const text = input?.value.trim().toLowerCase();
  for (const option of options) {
    const isMatch = option.textContent?.toLowerCase().includes(text ?? "");
    // the last one searches payments
    option.hidden = option === options.at(-1) ? !text : !isMatch;
  }
  activate(options.find(({hidden}) => !hidden));
}

function open() {
  if (!palette?.open) palette?.showModal();
  input?.form?.reset();
  filter();
}

/** @param {HTMLElement} option */
function run({dataset: {href, form}}) {
  if (href) return location.assign(href);
  const target = document.getElementById(form ?? "");
  if (target instanceof HTMLFormElement) target.requestSubmit();
}

document.addEventListener("keydown", (event) => {
  if (!(event.ctrlKey || event.metaKey) || event.key !== "k") return;
  event.preventDefault();
  open();
});
document.querySelector("[data-palette]")?.addEventListener("click", open);
input?.addEventListener("input", filter);
input?.addEventListener("keydown", (event) => {
  const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
  if (!active || (!step && event.key !== "Enter")) return;
  event.preventDefault();
  if (!step) return run(active);
  const shown = options.filter(({hidden}) => !hidden);
  activate(shown.at((shown.indexOf(active) + step) % shown.length));
});
for (const option of options) option.addEventListener("click", () => run(option));
