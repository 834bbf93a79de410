"""Announcements of a page, as a screen reader gets them from the page's live regions."""

from __future__ import annotations

from playwright.async_api import BrowserContext, Page

# a region announces all of its visible text after a part of it changed; regions that are hidden, or
# that only become empty, announce nothing
_RECORDER = """
window.announcements = [];
const REGIONS = "[role=status], [role=alert], [aria-live]:not([aria-live=off])";
const isHidden = (element) => element.closest("[hidden], [aria-hidden=true]") !== null
  || !element.checkVisibility({visibilityProperty: true});
const spoken = (region) => {
  const texts = [];
  const walker = document.createTreeWalker(region, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const around = walker.currentNode.parentElement;
    if (!isHidden(around)) texts.push(walker.currentNode.nodeValue);
  }
  return texts.join(" ").replace(/[\\u2066-\\u2069]/g, "").replace(/\\s+/g, " ").trim();
};
const observe = () => new MutationObserver((changes) => {
  const regions = new Set();
  for (const {target} of changes) {
    const element = target instanceof Element ? target : target.parentElement;
    const region = element?.closest(REGIONS);
    if (region && !element.closest("[aria-hidden=true]")) regions.add(region);
  }
  for (const region of regions) {
    const text = isHidden(region) ? "" : spoken(region);
    if (text) window.announcements.push(text);
  }
}).observe(document, {subtree: true, childList: true, characterData: true,
  attributes: true, attributeFilter: ["hidden"]});
// what the page has from the beginning is read, not announced
document.addEventListener("readystatechange", observe, {once: true});
"""


async def record_announcements(target: BrowserContext | Page) -> None:
    """Record the announcements of all pages that are loaded from now on."""
    await target.add_init_script(f"(() => {{{_RECORDER}}})()")


async def take_announcements(page: Page) -> list[str]:
    """Return the announcements since the page was loaded or this was called, oldest first."""
    result: list[str] = await page.evaluate("() => announcements.splice(0)")
    return result
