"""Draw the diagrams of the documents for their site: `python -m tests.diagrams`.

GitHub draws blocks of Mermaid itself. The site shows pictures, so that its pages load no library of
three megabytes. A picture is named after its block: a block that changes needs new pictures.
"""

from __future__ import annotations

import asyncio
from typing import Final

from playwright.async_api import Page

from tests.support import browser, npm
from tests.support.documents import ROOT
from tools import docs_site

FOLDER: Final = ROOT / "docs" / docs_site.DIAGRAMS
_NPM_FOLDER: Final = ROOT / "tests/support/diagrams_npm"
_HOME: Final = npm.BUILD / "diagrams"
# the themes of Mermaid for those of the site
_THEMES: Final = {"light": "neutral", "dark": "dark"}
_DRAW: Final = """async ([text, theme]) => {
  mermaid.initialize({startOnLoad: false, theme, htmlLabels: false, deterministicIds: true,
                      flowchart: {htmlLabels: false}});
  return (await mermaid.render('diagram', text)).svg;
}"""


async def draw(page: Page, text: str, theme: str) -> str:
    """Return the SVG of a block in a theme."""
    svg: str = await page.evaluate(_DRAW, [text, _THEMES[theme]])
    return svg


async def main() -> None:
    """Draw the missing pictures, and delete those of former blocks."""
    if (fault := npm.install(_NPM_FOLDER, _HOME)) is not None:
        raise SystemExit(fault)
    FOLDER.mkdir(exist_ok=True)
    expected = {
        FOLDER / docs_site.get_diagram_name(text, theme): (text, theme)
        for text in docs_site.list_diagrams()
        for theme in _THEMES
    }
    for path in FOLDER.glob("*.svg"):
        if path not in expected:
            path.unlink()
    async with browser.launch_browser() as launched:
        page = await launched.new_page()
        await page.add_script_tag(path=_HOME / "node_modules/mermaid/dist/mermaid.min.js")
        for path, (text, theme) in expected.items():
            if not path.exists():
                path.write_text(f"{await draw(page, text, theme)}\n")


if __name__ == "__main__":
    asyncio.run(main())
