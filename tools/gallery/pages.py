"""Convert an executed notebook to a page, and to the data that tests compare."""

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

from tools.gallery.figures import CHART_MIME_TYPE

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "gallery"
NOTEBOOKS = ROOT / "notebooks"
# relative tolerance of numbers: gas costs depend on the bytes of random keys
TOLERANCE = 1e-3
# most differences to list separately
_DIFFERENCES_MAX = 8
_COLORS = 64
# imports of notebooks whose figures depend on their parameters alone
_SOURCES = ("\nfrom data import load\n", "\nfrom florin_server.domain.capacity import model\n")
# ids, keys and hashes differ in each run
_ID_PATTERNS = (
    (re.compile(r"\b(pay|mrch|pout|rfnd|par|opt)_\w{8,}"), r"\1_…"),
    (re.compile(r"0x[0-9a-fA-F]{6,}"), "0x…"),
    (re.compile(r"\b[1-9A-HJ-NP-Za-km-z]{40,}\b"), "…"),
    (re.compile(r"0x[0-9a-f]{0,5}…\w+"), "0x…"),
    (re.compile(r"…\w{6}\b"), "…"),
)
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")
# only the first simulation draws a progress bar
_PROGRESS = re.compile(r"^\[=* *\] \d+/\d+$")
_PAGE = """<!-- Made by `make gallery`; do not edit. -->

{title}

From [{name}](../../notebooks/{name}.py), as executed; ids are left out.

{body}
"""


def list_notebooks() -> list[Path]:
    """List the notebooks of the gallery: analyses of tables and models, which measure no times."""
    paths = sorted(NOTEBOOKS.glob("*.py"))
    return [
        path.with_suffix(".ipynb")
        for path in paths
        if any(source in path.read_text() for source in _SOURCES)
    ]


def strip_ids(text: str) -> str:
    """Replace the parts of a text that differ in every run."""
    for pattern, instead in _ID_PATTERNS:
        text = pattern.sub(instead, text)
    return text


def list_outputs(notebook: NotebookNode) -> list[dict[str, Any]]:
    """List the outputs of the cells in order, each with the heading above it."""
    return [part for _, _, part in _list_parts(notebook) if part]


def _list_parts(notebook: NotebookNode) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield text, or a picture (empty for texts) with the data to compare."""
    heading = ""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            heads = re.findall(r"^#+ (.+)$", cell.source, re.MULTILINE)
            heading = heads[-1] if heads else heading
            yield cell.source, "", {}
            continue
        for picture, part in _list_cell_outputs(cell):
            yield "", picture, {"under": heading, **part}


def _list_cell_outputs(cell: NotebookNode) -> Iterator[tuple[str, dict[str, Any]]]:
    text = ""
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        if CHART_MIME_TYPE in data:
            yield from _list_text_outputs(text)
            text = ""
            yield (
                data["image/png"],
                {"chart": json.loads(strip_ids(_format_json(data[CHART_MIME_TYPE])))},
            )
        elif output.get("name") != "stderr" and not _PROGRESS.match(data.get("text/plain", "")):
            # streams arrive in arbitrary pieces
            text += output.get("text") or data.get("text/plain", "") + "\n" * bool(data)
    yield from _list_text_outputs(text)


def _list_text_outputs(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if text.strip():
        yield "", {"text": [line.rstrip() for line in strip_ids(text).rstrip().split("\n")]}


def _format_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def write_page(name: str, notebook: NotebookNode, folder: Path = FOLDER) -> None:
    """Write the page, its pictures, and the data to compare, replacing earlier ones."""
    (folder / "data").mkdir(parents=True, exist_ok=True)
    for old in folder.glob(f"{name}_*.png"):
        old.unlink()
    title = notebook.cells[0].source.split("\n", 1)[0]
    body: list[str] = []
    pictures = 0
    for words, picture, part in _list_parts(notebook):
        if "text" in part:
            body.append("\n".join(["```text", *part["text"], "```"]))
        elif "chart" in part:
            pictures += 1
            file = f"{name}_{pictures}.png"
            (folder / file).write_bytes(_reduce_colors(base64.b64decode(picture)))
            body.append(f"![{part['chart']['axes'][0]['title']}]({file})")
        else:
            body.append(words.removeprefix(title).strip())
    page = _PAGE.format(title=title, name=name, body="\n\n".join(body))
    (folder / f"{name}.md").write_text(page)
    (folder / "data" / f"{name}.json").write_text(_format_outputs(list_outputs(notebook)))


def _reduce_colors(png: bytes) -> bytes:
    """Return the picture in fewer colors."""
    out = io.BytesIO()
    Image.open(io.BytesIO(png)).convert("RGB").quantize(_COLORS).save(out, "PNG", optimize=True)
    return out.getvalue()


def _format_outputs(recorded_outputs: list[dict[str, Any]]) -> str:
    """Format one output per line, so that a change is one line too."""
    return "[\n" + ",\n".join(map(_format_json, recorded_outputs)) + "\n]\n"


def load_recorded_outputs(name: str, folder: Path = FOLDER) -> list[dict[str, Any]]:
    """Return the data that was recorded with the page; empty without a page."""
    file = folder / "data" / f"{name}.json"
    outputs: list[dict[str, Any]] = json.loads(file.read_text()) if file.exists() else []
    return outputs


def describe_changes(name: str, notebook: NotebookNode, folder: Path = FOLDER) -> str:
    """List the differences from the gallery, one per line, and the remedy; empty without any."""
    differences = list(
        _list_differences(load_recorded_outputs(name, folder), list_outputs(notebook), "")
    )
    page = folder / f"{name}.md"
    there = page.read_text() if page.exists() else ""
    words = [text.split("\n", 1)[-1].strip() for text, _, part in _list_parts(notebook) if not part]
    differences += [
        f"changed text: {' '.join(word.split())[:60]}…" for word in words if word not in there
    ]
    if not differences:
        return ""
    more = (
        [f"and {len(differences) - _DIFFERENCES_MAX} more"]
        if len(differences) > _DIFFERENCES_MAX
        else []
    )
    message = "\n".join(
        f"  {difference}" for difference in [*differences[:_DIFFERENCES_MAX], *more]
    )
    return (
        f"{name} differs from docs/gallery/{name}.md:\n{message}\n"
        "If that is intended, run `make gallery`, review `git diff docs/gallery`, "
        "and commit the result."
    )


def _list_differences(old: Any, new: Any, where: str) -> Iterator[str]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        title = f"{new['under']}: " if "under" in new else where and f"{where}."
        for key in dict.fromkeys([*old, *new]):
            yield from _list_differences(old.get(key), new.get(key), f"{title}{key}")
    elif isinstance(old, list) and isinstance(new, list):
        for n, (item, other) in enumerate(zip(old, new, strict=False)):
            yield from _list_differences(item, other, f"{where}[{n}]")
        if len(old) != len(new):
            yield f"{where or 'outputs'}: {len(new)} instead of {len(old)}"
    elif not _is_equal(old, new):
        yield f"{where}: {_format_json(new)} instead of {_format_json(old)}"


def _is_equal(old: Any, new: Any) -> bool:
    if isinstance(old, str) and isinstance(new, str):
        # columns of a table are as wide as their longest id
        words = [" ".join(_NUMBER.sub("#", text).split()) for text in (old, new)]
        numbers = zip(_NUMBER.findall(old), _NUMBER.findall(new), strict=False)
        return words[0] == words[1] and all(
            _is_close(*map(_parse_number, pair)) for pair in numbers
        )
    if isinstance(old, int | float) and isinstance(new, int | float):
        return _is_close(old, new)
    return bool(old == new)


def _parse_number(text: str) -> float:
    return float(text.replace(",", ""))


def _is_close(old: float, new: float) -> bool:
    return abs(old - new) <= TOLERANCE * max(abs(old), abs(new)) + 1e-9
