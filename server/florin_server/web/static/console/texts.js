// The texts of scripts, in the language of the page.

/** @type {Record<string, string>} */
const texts = JSON.parse(document.getElementById("texts")?.textContent ?? "{}");
const language = document.documentElement.lang;
// the reader's region, if it writes this language
const preferred = navigator.languages.find((tag) => tag.split("-")[0] === language) ?? language;
// digits like those of the service, which writes all numbers with Western ones
export const locale = new Intl.Locale(preferred, {numberingSystem: "latn"});

/** Returns a text by its key, filled with values. @param {string} key @param {Record<string, string>} [values] */
export function translate(key, values = {}) {
  return (texts[key] ?? key).replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "");
}
