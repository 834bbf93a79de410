"""Counts of names and phrases that a reader has to guess at, with what to write instead.

The counts of today are stored in `tests/data/words.toml`. They may only shrink:
`python -m tests.support.words` writes smaller ones, and refuses larger ones. What is left is
stored, signed or public: the column `told` of webhook deliveries, the member `asked` of receipts,
and the label `nobody` of a metric.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tests.support.documents import ROOT
from tests.support.syntax import walk, walk_statements

BASELINE = ROOT / "tests/data/words.toml"
PACKAGES = (
    *("server/florin_server", "sandbox/florin_sandbox"),
    *("gateway/grpc_rest_gateway", "client/florin_client"),
)
OURS = ("florin", "gateway_options", "contracts", "tests", "tools", "notebooks", "examples")
# the files that contain the banned words themselves
OWN = {ROOT / "tests/support/words.py", ROOT / "tests/unit/house/test_words.py"}
CODE = {"package": (*PACKAGES, "tools", "examples"), "tests": ("tests", "contracts", "notebooks")}

# names that say nothing of what they hold, and what to take instead
NAMES = {
    "one": "the noun of its type: payment, payout, endpoint, row",
    "found": "the noun of its type, or result",
    "told": "message, report, detail",
    "given": "value, options, overrides",
    "asked": "request, query",
    "known": "existing",
    "wanted": "options, query, expected",
    "said": "text, headers",
    "made": "created",
    "kept": "stored",
    "others": "remaining, peers",
    "begun": "started",
    "nobody": "anonymous, unknown",
    "somebody": "another_user",
    "whoever": "caller, sender",
    "hole": "planted_bug, vulnerability",
    "foe": "attacker",
    "meddler": "intruder",
    "storm": "chaos_run",
    "knobs": "config",
    "till": "pos",
}
# singular forms of names that are banned in the plural too
PLURALS = {"holes": "hole", "foes": "foe", "storms": "storm", "nobodys": "nobody", "knob": "knobs"}
# these are banned in every form: `TOLD`, `Told` and `_told` count as `told`
STRICT = ("told", "begun", "nobody", "somebody", "whoever", "hole", "foe", "meddler", "till")
# words of the old names of modules, and what to write instead
MODULES = {
    **{word: NAMES[word] for word in STRICT},
    "conclude": "payment_finalizer",
    "trying": "dry_runs",
    "onlooker": "standby_worker",
    "symptoms": "settlement_health",
    "shown": "views",
    "people": "landing",
    "notice": "error_pages",
    "hidden": "log_redaction",
    "reach": "address_policy",
    "witness": "quorum_reader",
    "tally": "pending_counts",
    "standing": "credential_status",
    "places": "addresses, slots",
    "worth": "conversion",
    "examining": "receipt_checks",
    "gifts": "faucet_limits",
    "judge": "auditor",
    "purse": "wallet",
    "stranger": "front_runner, third_party",
    "strangers": "third_parties",
    "stage": "environment",
    "story": "payment_flow, scenario",
    "stories": "flows",
    "desk": "service_harness",
    "kit": "factories, harness",
    "liars": "lying_peers",
    "looks": "polling, screenshots",
    "calm": "stable_values",
}

# how a docstring of something public does not begin
DOCSTRINGS = {
    "question": (r"(What|Who|Whose|Whom|How|Which|Where|Whether|When|Why)\b", "begin with a verb"),
    "the same": (r"The same\b", "say what it does"),
}
# the beginning of a text that may be a banned docstring
_QUOTED_START = re.compile(rf"[\"']\s*(?:{'|'.join(form for form, _ in DOCSTRINGS.values())})")
# the nodes of a syntax tree that name something, and where
_NAMED = {
    ast.Name: "id",
    ast.arg: "arg",
    ast.keyword: "arg",
    ast.Attribute: "attr",
    ast.FunctionDef: "name",
    ast.AsyncFunctionDef: "name",
    ast.ClassDef: "name",
}
# phrases of documents, with what to write instead
PHRASES = {
    r"\b(is|are|was|were) told\b": "is reported to, is notified of",
    r"\b(who|what)ever\b": "any caller, anyone who, everything that",
    r"\bsomebody\b": "someone, a caller, another user",
    r"\bnobody\b": "no one, no caller",
    r"\bby itself\b": "automatically",
    r"\bbecomes of\b": "happens to",
    r"\blets? \w+ know\b": "notifies",
    r"\bthere is none\b": "it does not exist",
    r"\bgoes on\b": "continues",
    r"\bbegun\b": "started",
    r"\bsomething else than\b": "something other than",
}
# phrases of code: of comments, docstrings, messages and the texts of tests
CODE_PHRASES = {
    form: replacement for form, replacement in PHRASES.items() if form != r"\b(who|what)ever\b"
} | {
    r"\bwhoever\b": "any caller, no matter who",
    r"\btold\b": "reported, notified",
    r"\bholes?\b": "planted bug, vulnerability",
    r"\bfoes?\b": "attacker",
    r"\bas \w+ has it\b": "according to",
}


def python_files(area: str) -> Iterator[Path]:
    """Yield the files of an area of CODE that people wrote."""
    for folder in CODE[area]:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not {"gen", "node_modules"} & set(path.parts):
                yield path


def names_in(tree: ast.AST) -> Iterator[str]:
    """Yield every name of ours that code binds, reads or passes."""
    nodes = [*walk(tree)]
    foreign = imported_names(nodes)
    for node in nodes:
        attribute = _NAMED.get(type(node))
        name = getattr(node, attribute) if attribute else None
        # `**options` is a keyword without a name
        if name is not None and not (isinstance(node, ast.Name) and name in foreign):
            yield normalize(name)


def has_banned_name(text: str) -> bool:
    """Return True if code may have a banned name: a word of its text is one."""
    return not {normalize(word) for word in set(re.findall(r"\w+", text))}.isdisjoint(NAMES)


def has_banned_docstring(text: str) -> bool:
    """Return True if code may have a banned docstring: one of its texts begins like one."""
    return _QUOTED_START.search(text) is not None


def normalize(name: str) -> str:
    """Return the form under which a name is banned: `TOLD`, `Told` and `_told` are `told`."""
    plain = name.strip("_").lower()
    plain = PLURALS.get(plain, plain)
    return plain if plain in STRICT else PLURALS.get(name, name)


def module_problems(paths: Iterable[Path]) -> list[str]:
    """Return a sentence for each module whose name has a word of the old names."""
    return [
        f"{path.relative_to(ROOT)}: {part} is banned in names of modules; write {MODULES[part]}"
        for path in paths
        for part in path.stem.removeprefix("test_").split("_")
        if part in MODULES
    ]


def imported_names(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names that a module takes from other packages, such as hypothesis."""
    return {
        alias.asname or alias.name
        for node in nodes
        if isinstance(node, ast.ImportFrom) and not (node.module or "").startswith(OURS)
        for alias in node.names
    }


def docstrings_in(tree: ast.AST) -> Iterator[str]:
    """Yield the docstrings of classes and functions."""
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in walk_statements(tree):
        if isinstance(node, kinds) and (text := ast.get_docstring(node)):
            yield text


def public_classes() -> dict[str, Counter[str]]:
    """Return how often each package has a public class of a name."""
    counts: dict[str, Counter[str]] = {}
    for package in PACKAGES:
        counts[package] = Counter()
        for path in sorted((ROOT / package).rglob("*.py")):
            names = re.findall(r"^class (\w+)", path.read_text(), re.MULTILINE)
            counts[package].update(name for name in names if not name.startswith("_"))
    return counts


def prose_files() -> Iterator[Path]:
    """Yield the documents that people read."""
    yield from sorted((ROOT / "docs").rglob("*.md"))
    yield from sorted(ROOT.glob("*.md"))


def count_words() -> dict[str, dict[str, int]]:
    """Return the counts of today: names and docstrings by area, and phrases of documents."""
    counts: dict[str, dict[str, int]] = {}
    for area in CODE:
        texts = {path: path.read_text() for path in python_files(area)}
        names: Counter[str] = Counter()
        starts: Counter[str] = Counter()
        for text in texts.values():
            has_docstring = has_banned_docstring(text)
            # to parse a module takes longest
            if not has_docstring and not has_banned_name(text):
                continue
            tree = ast.parse(text)
            names.update(name for name in names_in(tree) if name in NAMES)
            for docstring in docstrings_in(tree) if has_docstring else ():
                starts.update(
                    key for key, (form, _) in DOCSTRINGS.items() if re.match(form, docstring)
                )
        counts[f"names of {area}"] = {name: names[name] for name in NAMES}
        counts[f"docstrings of {area}"] = {key: starts[key] for key in DOCSTRINGS}
        text = "\n".join(text for path, text in texts.items() if path not in OWN)
        counts[f"texts of {area}"] = count_phrases(text, CODE_PHRASES)
    text = "\n".join(path.read_text() for path in prose_files())
    counts["documents"] = count_phrases(text, PHRASES)
    return counts


def count_phrases(text: str, forms: Iterable[str]) -> dict[str, int]:
    """Return how often each phrase, which is on one line, occurs in a text."""
    forms = list(forms)
    # one search for all of them is faster than one for each, and most lines have none
    any_form = re.compile("|".join(f"(?:{form})" for form in forms))
    lines = "\n".join(line for line in text.lower().split("\n") if any_form.search(line))
    return {form: len(re.findall(form, lines)) for form in forms}


def read_baseline() -> dict[str, dict[str, int]]:
    """Return the counts that are allowed."""
    return tomllib.loads(BASELINE.read_text())


def advice(section: str, word: str) -> str:
    """Return what to write instead of a word of a section."""
    if section.startswith("names"):
        return NAMES[word]
    if section.startswith("docstrings"):
        return DOCSTRINGS[word][1]
    return PHRASES[word] if section == "documents" else CODE_PHRASES[word]


def grown(counts: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Return a sentence for each count that is larger than it was."""
    allowed = read_baseline() if BASELINE.exists() else counts
    return [
        f"{section}: {word} occurs {count} times, {allowed[section][word]} are allowed; "
        f"write {advice(section, word)}"
        for section, words in counts.items()
        for word, count in words.items()
        if count > allowed[section][word]
    ]


def write_baseline(counts: Mapping[str, Mapping[str, int]]) -> None:
    """Write the counts of today."""
    lines = ["# Counts of words to be replaced; `python -m tests.support.words` lowers them."]
    for section, words in counts.items():
        lines += ["", f'["{section}"]']
        lines += [f"'{word}' = {count}" for word, count in words.items()]
    BASELINE.write_text("\n".join(lines) + "\n")


def main() -> int:
    """Lower the baseline to the counts of today, or say what grew."""
    counts = count_words()
    problems = grown(counts)
    print("\n".join(problems), file=sys.stderr)
    if not problems:
        write_baseline(counts)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
