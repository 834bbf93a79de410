"""The site of the documents: pages, their Markdown, `llms.txt`, and what the search finds."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import urljoin

import pytest

from tests.support.documents import DOCUMENTS, GENERATED, ROOT

docs_site = pytest.importorskip("tools.docs_site", reason="the group `docs` is not installed")

pytestmark = pytest.mark.slow
GALLERY = ["gallery/index.md"]
# not --quiet: MkDocs then counts no warnings, and every link passes
BUILD = (sys.executable, "-m", "mkdocs", "build", "--strict")
ADDRESS = "https://docs.example/florin/"
# what readers type, and the page that answers it
QUESTIONS = {
    "refund": "payouts.html",
    "webhook signature": "webhooks.html",
    "add a chain": "real-chains.html",
    "PostgreSQL": "postgresql.html",
    "testnet": "real-chains.html",
    "sandbox": "sandbox.html",
    "API key": "command-line.html",
    "expired payment": "payments.html",
    "change fee": "prices.html",
    "upgrade": "deployment.html",
    "sanctions": "screening.html",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "site"
    subprocess.run(
        [*BUILD, "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, "DOCS_SITE_URL": ADDRESS, "NO_MKDOCS_2_WARNING": "1"},
        check=True,
    )
    return folder


def list_pages() -> list[str]:
    """List the Markdown pages that the site must have."""
    generated = [
        str(path.relative_to(ROOT)) for name in GENERATED for path in (ROOT / name).glob("*.md")
    ]
    return [
        docs_site.OTHER_PAGES.get(name, name.removeprefix("docs/"))
        for name in [*DOCUMENTS, "CHANGELOG.md", *generated]
    ]


def list_links(text: str) -> list[str]:
    """List the targets of the links of a Markdown page, without those in code."""
    prose = re.sub(r"^```.*?^```$|(?<!\[)`[^`\n]+`", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"\]\(([^)\s]+)\)", prose)


def test_each_document_is_a_page_with_markdown_beside_it(site):
    assert len(list_pages()) > 50
    for page in list_pages():
        html = (site / page).with_suffix(".html").read_text()
        assert f'type="text/markdown" href="{Path(page).name}"' in html, page
        assert (site / page).read_text().count("\n# ") or (site / page).read_text()[0] in "#<"


def test_links_of_the_markdown_lead_to_files_of_the_site(site):
    count = 0
    for page in list_pages():
        for link in list_links((site / page).read_text()):
            path = link.partition("#")[0]
            if path and "://" not in link:
                count += 1
                assert (site / page).parent.joinpath(path).exists(), (page, link)
    assert count > 300


def test_llms_txt_lists_each_page_below_the_address_of_the_site(site):
    links = list_links((site / "llms.txt").read_text())
    assert sorted(links) == sorted(urljoin(ADDRESS, page) for page in [*list_pages(), *GALLERY])


def test_llms_full_has_each_page_with_absolute_links(site):
    text = (site / "llms-full.txt").read_text()
    pages = re.findall(rf"^<!-- {ADDRESS}(\S+) -->$", text, re.MULTILINE)
    assert sorted(pages) == sorted([*list_pages(), *GALLERY])
    links = list_links(text)
    assert [link for link in links if "://" not in link] == []
    own = {link.partition("#")[0] for link in links if link.startswith(ADDRESS)}
    assert [link for link in own if not (site / link.removeprefix(ADDRESS)).exists()] == []


def test_pages_load_nothing_from_others(site):
    pages = [*site.rglob("*.html")]
    assert len(pages) > 50
    for page in pages:
        html = page.read_text()
        loaded = re.findall(r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"?([^\"\s>]+)", html)
        loaded += [
            match[1]
            for tag in re.findall(r"<link\b[^>]*>", html)
            if not re.search(r'rel="?(canonical|prev|next)\b', tag)
            and (match := re.search(r'href="?([^"\s>]+)', tag))
        ]
        assert [link for link in loaded if "//" in link] == [], page
        # the theme would load the library of diagrams from another host
        assert 'class="mermaid"' not in html, page


def test_each_diagram_has_its_pictures_and_no_others():
    """After a diagram has changed, run `make diagrams`."""
    diagrams = docs_site.list_diagrams()
    assert len(diagrams) >= 6
    expected = {
        docs_site.get_diagram_name(text, theme) for text in diagrams for theme in ("light", "dark")
    }
    assert {path.name for path in (ROOT / "docs" / docs_site.DIAGRAMS).iterdir()} == expected


def test_pages_show_diagrams_as_pictures_with_their_text(site):
    html = (site / "architecture.html").read_text()
    assert re.search(r'src="?diagrams/\w+-dark\.svg#only-dark', html)
    assert "florin_sandbox: embedded chains]" in html
    assert "```mermaid" in (site / "architecture.md").read_text()


@pytest.mark.skipif(shutil.which("node") is None, reason="runs the search of the pages")
def test_search_finds_the_page_that_answers_a_question(site):
    output = subprocess.run(
        ["node", ROOT / "tests/support/site_search.mjs", site, *QUESTIONS],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    hits = json.loads(output)
    assert {
        query: hits[query][:3] for query, page in QUESTIONS.items() if page not in hits[query][:3]
    } == {}


def test_broken_links_and_anchors_fail_the_build(tmp_path):
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    with (tmp_path / "docs/pages.md").open("a") as file:
        file.write("\n[a](nowhere.md) [b](payments.md#nowhere) [c](../nowhere.py)\n")
    config = tmp_path / "mkdocs.yml"
    config.write_text(
        f"INHERIT: {ROOT / 'mkdocs.yml'}\n"
        f"hooks: [{ROOT / 'tools/docs_site.py'}]\n"
        f"theme: {{custom_dir: {ROOT / 'tools/site_theme'}}}\n"
    )
    result = subprocess.run(
        [*BUILD, "--config-file", config], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    for link in ("nowhere.md", "payments.md#nowhere", "../nowhere.py"):
        assert f"'{link}'" in result.stderr, link


def test_links_lead_from_documents_to_pages_and_copied_files():
    linked: set[str] = set()
    text = (
        "[a](../README.md#b) [`c`](../tools/docs_site.py) [d](../tests) ![e](pictures/form.png)\n"
        "`[f](../README.md)` [g](https://h.example) [i](#j) [k](../missing.md)\n"
        "```sh\n[l](../README.md)\n```\n"
    )
    assert docs_site.rewrite_links(text, "payments.md", linked) == (
        "[a](index.md#b) [`c`](files/tools/docs_site.py) d ![e](pictures/form.png)\n"
        "`[f](../README.md)` [g](https://h.example) [i](#j) [k](../missing.md)\n"
        "```sh\n[l](../README.md)\n```\n"
    )
    assert linked == {"tools/docs_site.py"}


def test_links_of_one_text_for_all_pages_begin_with_the_root():
    text = "[a](../payments.md#b) [c](#d) ![e](e.png) [f](https://f.example)"
    assert docs_site.make_absolute(text, "contributing/tests.md", "/docs") == (
        "[a](/docs/payments.md#b) [c](/docs/contributing/tests.md#d) "
        "![e](/docs/contributing/e.png) [f](https://f.example)"
    )


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        (
            "<!-- Made. -->\n\n# A\n\n![b](b.png)\n\nReads **all** [rows](c.md). More.",
            "Reads all rows.",
        ),
        ("# A\n\n```sh\n# b\n```\n\nThese are the parts:\n\n- c", "These are the parts."),
        ("# A\n", ""),
    ],
)
def test_summary_is_the_first_sentence(text, summary):
    assert docs_site.summarize(text) == summary
