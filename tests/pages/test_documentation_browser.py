"""The page of the OpenAPI document in a browser: its order, and its colors in both schemes."""

from __future__ import annotations

import pytest
import pytest_asyncio

from tests.support.browser import launch_browser, open_visitor

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

# the texts of a page's main parts, with their contrast to the background behind them
_CONTRASTS = """selectors => selectors.map(selector => {
  const element = document.querySelector(selector);
  const parse = color => color.match(/[\\d.]+/g).map(Number);
  const light = color => {
    const [r, g, b] = parse(color).map(part => part / 255)
      .map(part => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  let behind = element;
  // opaque, or nearly so
  while (behind && (parse(getComputedStyle(behind).backgroundColor)[3] ?? 1) < 0.5) {
    behind = behind.parentElement;
  }
  const background = behind ? getComputedStyle(behind).backgroundColor : "rgb(255, 255, 255)";
  const [low, high] = [light(getComputedStyle(element).color), light(background)].sort();
  return [selector, (high + 0.05) / (low + 0.05)];
})"""
_TEXTS = (
    ".info .title",
    ".info .description p",
    ".info .description code",
    ".opblock-tag",
    ".opblock-summary-path",
    ".opblock-summary-description",
    ".opblock.is-open .opblock-description-wrapper p, .opblock.is-open .opblock-section-header h4",
    ".opblock.is-open .parameter__name",
    ".opblock.is-open .response-col_description",
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser():
    async with launch_browser() as browser:
        yield browser


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_payments_come_first_and_texts_are_readable(browser, desk, scheme):
    async with open_visitor(browser, color_scheme=scheme) as visitor:
        page = await visitor.open(f"{desk.rest.base}/docs")
        await page.wait_for_selector(".opblock")
        tags = await page.locator(".opblock-tag a span").all_inner_texts()
        assert tags == ["Payments", "Accounts", "Wallets", "Sandbox", "Webhooks", "Service"]
        first = await page.locator(".opblock-summary-path").first.inner_text()
        assert first.replace("\u200b", "") == "/v1/payments"
        description = await page.locator(".info .description").inner_text()
        assert description.index("Authentication") < description.index("Two profiles")
        await page.locator(".opblock-summary-control").first.click()
        await page.wait_for_selector(".opblock.is-open .response-col_description")
        low = {
            name: ratio for name, ratio in await page.evaluate(_CONTRASTS, _TEXTS) if ratio < 4.5
        }
        assert low == {}
        dark = await page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        assert (dark == "rgb(28, 32, 34)") is (scheme == "dark")
        # Swagger UI tries one style of its own, which the page's policy blocks
        visitor.complaints[:] = [text for text in visitor.complaints if "inline style" not in text]
