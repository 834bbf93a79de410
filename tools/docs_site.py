"""Hooks of MkDocs that make the site of the documents out of the documents of this repository.

The links of documents lead to files of the repository, as GitHub shows them. For the site, the
documents outside `docs/` become pages, and linked source files are copied. The hooks also write
each page as Markdown beside its HTML, and all pages into `llms.txt` and `llms-full.txt`.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation, Section
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parents[1]
# documents outside `docs/`, and their pages
OTHER_PAGES: Final = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
    "CONTRIBUTING.md": "contributing/index.md",
    "SECURITY.md": "security-policy.md",
    "client/README.md": "clients/python.md",
    "client/typescript/README.md": "clients/typescript.md",
}
# the folder of the site for source files that documents link
_SOURCES: Final = "files"
# the folder of the drawn diagrams
DIAGRAMS: Final = "diagrams"
# the page that this module writes from the pages of the gallery
_GALLERY: Final = "gallery/index.md"
# pages that come last in the search: they mention everything, and answer no question of a user
_BACKGROUND: Final = (
    *("architecture.md", "changelog.md", "contributing/", "decisions.md", "gallery/"),
    *("performance.md", "store.md", "testing.md", "threats.md"),
)
_CODE_OR_LINK: Final = re.compile(
    r"^```.*?^```$|(?P<image>!?)\[(?P<label>(?:[^\[\]`]|`[^`]+`)*)\]\((?P<link>[^)\s]+)\)|`[^`\n]+`",
    re.MULTILINE | re.DOTALL,
)
_DIAGRAM: Final = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FENCE_WITH_FILE: Final = re.compile(r"^```(\w+) (\S+)$", re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the documents outside `docs/` and the linked source files; let links lead to pages."""
    for document, uri in OTHER_PAGES.items():
        text = (ROOT / document).read_text()
        files.append(File.generated(config, uri, content=text))
    files.append(File.generated(config, _GALLERY, content=render_gallery()))
    linked: set[str] = set()
    for file in files.documentation_pages():
        file.content_string = rewrite_links(file.content_string, file.src_uri, linked)
    for path in sorted(linked):
        content = (ROOT / path).read_bytes()
        files.append(File.generated(config, f"{_SOURCES}/{path}", content=content))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Rank the page in the search; show the file that a block is for as the title of the block."""
    if page.file.src_uri.startswith(_BACKGROUND):
        page.meta["search"] = {"boost": 0.2}
    folder = posixpath.relpath(DIAGRAMS, posixpath.dirname(page.file.src_uri) or ".")
    shown = _DIAGRAM.sub(lambda match: show_diagram(match[1], folder), markdown)
    return _FENCE_WITH_FILE.sub(r'```\1 title="\2"', shown)


def on_nav(nav: Navigation, config: MkDocsConfig, **_: object) -> Navigation:
    """Keep the navigation for `on_post_build`."""
    config.extra["pages_by_section"] = [*list_sections(nav)]
    return nav


def on_post_build(config: MkDocsConfig) -> None:
    """Write the Markdown of each page, `llms.txt` and `llms-full.txt`."""
    root = (config.site_url or "/").rstrip("/")
    index = [f"# {config.site_name}\n\n> {config.site_description}.\n"]
    whole: list[str] = []
    for section, pages in config.extra["pages_by_section"]:
        lines = [f"## {section}\n"]
        for page in pages:
            uri, text = page.file.src_uri, page.file.content_string
            path = Path(config.site_dir) / uri
            path.write_text(text)
            lines.append(f"- [{page.title}]({root}/{uri}): {summarize(text)}")
            whole.append(f"<!-- {root}/{uri} -->\n\n{make_absolute(text, uri, root)}")
        index.append("\n".join(lines) + "\n")
    (Path(config.site_dir) / "llms.txt").write_text("\n".join(index))
    (Path(config.site_dir) / "llms-full.txt").write_text("\n".join(whole))


def list_diagrams() -> list[str]:
    """Return the blocks of Mermaid in all documents."""
    documents = [*(ROOT / name for name in OTHER_PAGES), *sorted((ROOT / "docs").rglob("*.md"))]
    return [text for path in documents for text in _DIAGRAM.findall(path.read_text())]


def get_diagram_name(text: str, theme: str) -> str:
    """Return the file name of a block's picture in the theme `light` or `dark`."""
    return f"{hashlib.sha256(text.encode()).hexdigest()[:16]}-{theme}.svg"


def show_diagram(text: str, folder: str) -> str:
    """Return Markdown that shows the pictures of a block, and its text for readers without them.

    The theme hides the picture of the other color scheme.
    """
    pictures = [
        f"![Diagram]({folder}/{get_diagram_name(text, theme)}#only-{theme})"
        for theme in ("light", "dark")
    ]
    source = textwrap.indent(f"```text\n{text}```", "    ")
    return f'{" ".join(pictures)}\n\n??? note "Diagram as text"\n\n{source}\n'


def list_sections(nav: Navigation) -> Iterator[tuple[str, list[Page]]]:
    """Yield the sections of the first level with all their pages, in their order."""
    alone = [item for item in nav.items if isinstance(item, Page)]
    yield "Overview", alone
    for item in nav.items:
        if isinstance(item, Section):
            yield item.title, [*_list_pages(item)]


def _list_pages(section: Section) -> Iterator[Page]:
    for item in section.children:
        if isinstance(item, Section):
            yield from _list_pages(item)
        elif isinstance(item, Page):
            yield item


def rewrite_links(text: str, uri: str, linked: set[str]) -> str:
    """Return a page's text with links to the pages of other documents and to copied files.

    Add the paths of the files to `linked`. A link to a folder becomes its text.
    """
    document = {page: name for name, page in OTHER_PAGES.items()}.get(uri, f"docs/{uri}")
    folder = posixpath.dirname(document)

    def rewrite(path: str) -> str | None:
        target = posixpath.normpath(posixpath.join(folder, path))
        if target in OTHER_PAGES:
            place = OTHER_PAGES[target]
        elif target.startswith("docs/"):
            place = target.removeprefix("docs/")
        elif (ROOT / target).is_dir():
            return None
        elif (ROOT / target).is_file():
            linked.add(target)
            place = f"{_SOURCES}/{target}"
        else:
            return path  # MkDocs reports it
        return posixpath.relpath(place, posixpath.dirname(uri) or ".")

    return _replace_links(text, rewrite)


def make_absolute(text: str, uri: str, root: str) -> str:
    """Return a page's text with links that begin with the root of the site."""
    folder = posixpath.dirname(uri)

    def rewrite(path: str) -> str:
        return f"{root}/{posixpath.normpath(posixpath.join(folder, path)) if path else uri}"

    return _replace_links(text, rewrite, own_anchors=True)


def _replace_links(
    text: str, rewrite: Callable[[str], str | None], *, own_anchors: bool = False
) -> str:
    """Replace the paths of links within the site, outside of code.

    A link that has no path any more becomes its text.
    """

    def replace(match: re.Match[str]) -> str:
        label, link = match["label"], match["link"]
        if link is None or "://" in link or link.startswith("mailto:"):
            return match[0]
        path, mark, anchor = link.partition("#")
        if not path and not own_anchors:
            return match[0]
        target = rewrite(path)
        return label if target is None else f"{match['image']}[{label}]({target}{mark}{anchor})"

    return _CODE_OR_LINK.sub(replace, text)


def get_title(text: str) -> str:
    """Return the first heading of a page."""
    match = re.search(r"^# (.+)$", text, re.MULTILINE)
    if match is None:
        raise ValueError("the page has no title")
    return match[1]


def summarize(text: str) -> str:
    """Return the first sentence of a page, as plain text."""
    body = re.split(r"^# .+$", text, maxsplit=1, flags=re.MULTILINE)[1]
    for paragraph in body.split("\n\n"):
        without_pictures = re.sub(r"!\[[^\]]*\]\([^)]*\)", "", paragraph)
        plain = re.sub(r"\[([^\]]*)\](?:\([^)]*\)|\[\d\])", r"\1", without_pictures)
        plain = " ".join(plain.replace("**", "").split())
        if plain and plain[0] not in "#|`-!<":
            sentence = re.split(r"(?<=[.:!?])\s", plain)[0]
            return f"{sentence.rstrip('.:')}."
    return ""


def render_gallery() -> str:
    """Return the page that shows each analysis of the gallery by its question and first chart."""
    introduction = "Each analysis is a [notebook](../notebooks.md), executed and rendered."
    parts = [f"# Gallery\n\n{introduction}\n"]
    for path in sorted((ROOT / "docs/gallery").glob("*.md")):
        text = path.read_text()
        picture = next(re.finditer(r"!\[[^\]]*\]\([^)]+\)", text))[0]
        parts.append(f"## [{get_title(text)}]({path.name})\n\n{picture}\n")
    return "\n".join(parts)
