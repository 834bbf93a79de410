// The receipt in the reader's own time zone, and its button to print. Without it the page has times
// in UTC, and browsers print by their menu.

const zoned = { dateStyle: /** @type {const} */ ("medium"), timeStyle: /** @type {const} */ ("long") };
for (const place of document.querySelectorAll("time[datetime]")) {
  const at = new Date(place.getAttribute("datetime") ?? "");
  place.textContent = new Intl.DateTimeFormat(document.documentElement.lang, zoned).format(at);
}
document.getElementById("print")?.addEventListener("click", () => print());
