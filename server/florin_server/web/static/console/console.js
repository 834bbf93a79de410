// Shows times in the reader's zone, copies values, and moves to the search with "/".
import {locale, translate} from "./texts.js";

const AGES = [
  {size: 86400, key: "ago.days"},
  {size: 3600, key: "ago.hours"},
  {size: 60, key: "ago.minutes"},
  {size: 1, key: "ago.seconds"},
];
const MONTH_S = 30 * 86400;
const EVERY_MS = 10_000;
// by the clock of the service, which ages are measured with: the browser's can be off
const loaded = document.getElementById("loaded");
const loadedMs = loaded instanceof HTMLTimeElement ? Date.parse(loaded.dateTime) : Date.now();
const whole = new Intl.DateTimeFormat(locale, {dateStyle: "medium", timeStyle: "medium"});
const day = new Intl.DateTimeFormat(locale, {dateStyle: "medium"});

/** @param {Date} at */
function describeAge(at) {
  const seconds = Math.floor((loadedMs + performance.now() - at.getTime()) / 1000);
  if (seconds < 0 || seconds > MONTH_S) return day.format(at);
  const age = AGES.find(({size}) => seconds >= size);
  return age
    ? translate(age.key, {number: String(Math.floor(seconds / age.size))})
    : translate("ago.now");
}

function showTimes() {
  for (const element of document.querySelectorAll("time[datetime]")) {
    // a day of a calendar is the same day in every zone
    if (!(element instanceof HTMLTimeElement) || !element.dateTime.includes("T")) continue;
    const at = new Date(element.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    const text = element.classList.contains("ago") ? describeAge(at) : whole.format(at);
    if (element.textContent !== text) element.textContent = text;
  }
}

function showZone() {
  const zone = document.getElementById("zone");
  const name = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (zone && name !== "UTC") zone.textContent = translate("zone", {zone: name});
}

/** @param {string} text */
function announce(text) {
  const copied = document.getElementById("copied");
  if (copied) copied.textContent = text;
}

/** @param {MouseEvent} event */
async function copy(event) {
  const button = event.target instanceof Element ? event.target.closest("[data-copy]") : null;
  if (!(button instanceof HTMLElement)) return;
  announce("");
  try {
    await navigator.clipboard.writeText(button.dataset["copy"] ?? "");
    announce(translate("copied"));
  } catch {
    announce(translate("copy_failed"));
  }
}

/** @param {KeyboardEvent} event */
function find(event) {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target instanceof Element && event.target.closest("input, select, textarea")) return;
  event.preventDefault();
  document.getElementById("find")?.focus();
}

showTimes();
showZone();
setInterval(showTimes, EVERY_MS);
document.addEventListener("click", copy);
document.addEventListener("keydown", find);
