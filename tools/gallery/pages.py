"""What a notebook that was run shows: as a page, and as what is compared."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from PIL import Image

from tools.gallery.figures import KIND

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "gallery"
NOTEBOOKS = ROOT / "notebooks"
# numbers of a kind are equal up to this share: what gas costs depends on the bytes of random keys
TOLERANCE = 1e-4
# as many differences are told one by one
_TOLD = 8
_COLOURS = 64
# ids, keys and hashes are other ones each time
_IDS = (
    (re.compile(r"\b(pay|mrch|pout|rfnd|par|opt)_\w{8,}"), r"\1_…"),
    (re.compile(r"0x[0-9a-fA-F]{6,}"), "0x…"),
    (re.compile(r"\b[1-9A-HJ-NP-Za-km-z]{40,}\b"), "…"),
    (re.compile(r"0x[0-9a-f]{0,5}…\w+"), "0x…"),
    (re.compile(r"…\w{6}\b"), "…"),
)
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")
# a bar of progress is drawn only by whom simulates first
_PROGRESS = re.compile(r"^\[=* *\] \d+/\d+$")
_PAGE = """<!-- Made by `make gallery`; do not edit. -->

{title}

Of [{name}](../../notebooks/{name}.py), as it was run; ids are left out.

{body}
"""


def shown() -> list[Path]:
    """The notebooks of the gallery: analyses, which read tables and time nothing."""
    found = sorted(NOTEBOOKS.glob("*.py"))
    return [
        one.with_suffix(".ipynb") for one in found if "\nfrom data import load\n" in one.read_text()
    ]


def without_ids(text: str) -> str:
    """A text as every run tells it."""
    for pattern, instead in _IDS:
        text = pattern.sub(instead, text)
    return text


def outputs(notebook: NotebookNode) -> list[dict[str, Any]]:
    """What its cells show, in their order, each with the heading above it."""
    return [part for _, _, part in _walk(notebook) if part]


def _walk(notebook: NotebookNode) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Words, or a picture (empty for texts) with what is compared."""
    heading = ""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            heads = re.findall(r"^#+ (.+)$", cell.source, re.MULTILINE)
            heading = heads[-1] if heads else heading
            yield cell.source, "", {}
            continue
        for picture, part in _of_cell(cell):
            yield "", picture, {"under": heading, **part}


def _of_cell(cell: NotebookNode) -> Iterator[tuple[str, dict[str, Any]]]:
    text = ""
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        if KIND in data:
            yield from _of_text(text)
            text = ""
            yield data["image/png"], {"chart": json.loads(without_ids(_json(data[KIND])))}
        elif output.get("name") != "stderr" and not _PROGRESS.match(data.get("text/plain", "")):
            # streams come in pieces, cut by chance
            text += output.get("text") or data.get("text/plain", "") + "\n" * bool(data)
    yield from _of_text(text)


def _of_text(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if text.strip():
        yield "", {"text": [line.rstrip() for line in without_ids(text).rstrip().split("\n")]}


def _json(told: Any) -> str:
    return json.dumps(told, ensure_ascii=False)


def write(name: str, notebook: NotebookNode, folder: Path = FOLDER) -> None:
    """The page, its pictures, and what is compared, in place of those before."""
    (folder / "data").mkdir(parents=True, exist_ok=True)
    for old in folder.glob(f"{name}_*.png"):
        old.unlink()
    title = notebook.cells[0].source.split("\n", 1)[0]
    body: list[str] = []
    pictures = 0
    for words, picture, part in _walk(notebook):
        if "text" in part:
            body.append("\n".join(["```text", *part["text"], "```"]))
        elif "chart" in part:
            pictures += 1
            file = f"{name}_{pictures}.png"
            (folder / file).write_bytes(_small(base64.b64decode(picture)))
            body.append(f"![{part['chart']['axes'][0]['title']}]({file})")
        else:
            body.append(words.removeprefix(title).strip())
    page = _PAGE.format(title=title, name=name, body="\n\n".join(body))
    (folder / f"{name}.md").write_text(page)
    (folder / "data" / f"{name}.json").write_text(_lines(outputs(notebook)))


def _small(png: bytes) -> bytes:
    """The same picture in fewer colours."""
    out = io.BytesIO()
    Image.open(io.BytesIO(png)).convert("RGB").quantize(_COLOURS).save(out, "PNG", optimize=True)
    return out.getvalue()


def _lines(told: list[dict[str, Any]]) -> str:
    """An output a line, so that a change is a line too."""
    return "[\n" + ",\n".join(map(_json, told)) + "\n]\n"


def kept(name: str, folder: Path = FOLDER) -> list[dict[str, Any]]:
    """What was compared when the page was made; nothing if there is no page."""
    file = folder / "data" / f"{name}.json"
    found: list[dict[str, Any]] = json.loads(file.read_text()) if file.exists() else []
    return found


def changes(name: str, notebook: NotebookNode, folder: Path = FOLDER) -> str:
    """What differs from the gallery, a line each, and what to do; empty if nothing does."""
    found = list(_differing(kept(name, folder), outputs(notebook), ""))
    page = folder / f"{name}.md"
    there = page.read_text() if page.exists() else ""
    words = [text.split("\n", 1)[-1].strip() for text, _, part in _walk(notebook) if not part]
    found += [f"other words: {' '.join(one.split())[:60]}…" for one in words if one not in there]
    if not found:
        return ""
    more = [f"and {len(found) - _TOLD} more"] if len(found) > _TOLD else []
    told = "\n".join(f"  {one}" for one in [*found[:_TOLD], *more])
    return (
        f"{name} shows something else than docs/gallery/{name}.md:\n{told}\n"
        "If that is meant, run `make gallery`, look at what `git diff docs/gallery` shows, "
        "and commit it."
    )


def _differing(was: Any, now: Any, where: str) -> Iterator[str]:
    if isinstance(was, Mapping) and isinstance(now, Mapping):
        title = f"{now['under']}: " if "under" in now else where and f"{where}."
        for key in dict.fromkeys([*was, *now]):
            yield from _differing(was.get(key), now.get(key), f"{title}{key}")
    elif isinstance(was, list) and isinstance(now, list):
        for n, (one, other) in enumerate(zip(was, now, strict=False)):
            yield from _differing(one, other, f"{where}[{n}]")
        if len(was) != len(now):
            yield f"{where or 'outputs'}: there are {len(now)}, and were {len(was)}"
    elif not _equal(was, now):
        yield f"{where}: {_json(now)}, and was {_json(was)}"


def _equal(was: Any, now: Any) -> bool:
    if isinstance(was, str) and isinstance(now, str):
        # columns of a table are as wide as their longest id
        words = [" ".join(_NUMBER.sub("#", one).split()) for one in (was, now)]
        numbers = zip(_NUMBER.findall(was), _NUMBER.findall(now), strict=False)
        return words[0] == words[1] and all(_near(*map(_value, pair)) for pair in numbers)
    if isinstance(was, int | float) and isinstance(now, int | float):
        return _near(was, now)
    return bool(was == now)


def _value(text: str) -> float:
    return float(text.replace(",", ""))


def _near(was: float, now: float) -> bool:
    return abs(was - now) <= TOLERANCE * max(abs(was), abs(now)) + 1e-9
