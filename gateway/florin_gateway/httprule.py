"""Paths of google.api.http: templates, and a router that matches undecoded request paths.

Template grammar: "/" segments, optionally a verb. A segment is a literal, `*` (exactly one
non-empty segment), `**` (the rest, possibly nothing; last only) or a variable
`{field.path=segments}`, short `{field.path}` for `{field.path=*}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeAlias, TypeVar
from urllib.parse import unquote_to_bytes

T = TypeVar("T")
# targets of one template, by method
_Ends: TypeAlias = dict[str, tuple[T, "Template"]]


class TemplateError(ValueError):
    """A template that cannot be a route."""


class PathError(ValueError):
    """A request path with a malformed escape, or one that is not UTF-8."""


class Wildcard(Enum):
    """A segment that is no literal."""

    ONE = "*"
    REST = "**"


Segment: TypeAlias = str | Wildcard


@dataclass(frozen=True, slots=True)
class Variable:
    """Segments `start` to `end` (None: to the last) of a path, bound to a field.

    Several segments keep an encoded slash encoded, so that it cannot be taken for a separator.
    """

    field_path: tuple[str, ...]
    start: int
    end: int | None
    several: bool


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed path template; an empty verb means none."""

    text: str
    segments: tuple[Segment, ...]
    verb: str
    variables: tuple[Variable, ...]


# the path "/", which no template can name
ROOT = Template("/", ("",), "", ())

_FIELD_PATH = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*")
_LITERAL = re.compile(r"[^/{}*:]+")
_NEVER = re.compile(r"[\s?#]|[^\x21-\x7e]")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_SLASH = re.compile(r"(%2[Ff])")


class _Parser:
    """One pass over one template."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.segments: list[Segment] = []
        self.variables: list[Variable] = []

    def fail(self, why: str) -> TemplateError:
        return TemplateError(f"{self.text!r}: {why} at character {self.at}")

    def peek(self, symbol: str) -> bool:
        return self.text.startswith(symbol, self.at)

    def take(self, symbol: str) -> bool:
        found = self.peek(symbol)
        self.at += len(symbol) if found else 0
        return found

    def parse(self) -> Template:
        if bad := _NEVER.search(self.text):
            self.at = bad.start()
            raise self.fail("a blank, a query or a character that must be encoded")
        if not self.take("/"):
            raise self.fail("a template begins with a slash")
        self.segment(in_variable=False)
        while self.take("/"):
            self.segment(in_variable=False)
        verb = self.verb() if self.take(":") else ""
        if self.at != len(self.text):
            raise self.fail("unexpected text")
        if Wildcard.REST in self.segments[:-1]:
            raise self.fail("** is not last")
        paths = [variable.field_path for variable in self.variables]
        if len(set(paths)) != len(paths):
            raise self.fail("a field is bound twice")
        return Template(self.text, tuple(self.segments), verb, tuple(self.variables))

    def segment(self, *, in_variable: bool) -> None:
        if self.peek("{"):
            if in_variable:
                raise self.fail("a variable inside a variable")
            self.variable()
        elif self.take("**"):
            self.segments.append(Wildcard.REST)
        elif self.take("*"):
            self.segments.append(Wildcard.ONE)
        else:
            self.segments.append(self.literal())

    def variable(self) -> None:
        self.take("{")
        found = _FIELD_PATH.match(self.text, self.at)
        if found is None:
            raise self.fail("a field path is no identifier")
        self.at = found.end()
        start = len(self.segments)
        if self.take("="):
            self.segment(in_variable=True)
            while self.take("/"):
                self.segment(in_variable=True)
        else:
            self.segments.append(Wildcard.ONE)
        if not self.take("}"):
            raise self.fail("an unclosed variable")
        end = len(self.segments)
        rest = self.segments[-1] is Wildcard.REST
        self.variables.append(
            Variable(
                tuple(found[0].split(".")),
                start,
                None if rest else end,
                several=rest or end - start > 1,
            )
        )

    def literal(self) -> str:
        found = _LITERAL.match(self.text, self.at)
        if found is None:
            raise self.fail("an empty segment")
        self.at = found.end()
        try:
            return _decode(found[0])
        except PathError as error:
            raise self.fail(str(error)) from None

    def verb(self) -> str:
        verb = self.literal()
        if self.at != len(self.text):
            raise self.fail("a verb is not at the end")
        return verb


def parse_template(text: str) -> Template:
    """Parse one template; TemplateError says what is wrong and where."""
    return _Parser(text).parse()


class _Node(Generic[T]):
    """A place in the trie: ways on, and the targets of paths that end here, by verb and method."""

    __slots__ = ("closed", "ends", "literals", "one", "rest")

    def __init__(self) -> None:
        # paths that lead here end here, or nowhere
        self.closed = False
        self.literals: dict[str, _Node[T]] = {}
        self.one: _Node[T] | None = None
        self.rest: _Node[T] | None = None
        self.ends: dict[str, _Ends[T]] = {}

    def into(self, segment: Segment) -> _Node[T]:
        if segment is Wildcard.ONE:
            self.one = self.one or _Node()
            return self.one
        if segment is Wildcard.REST:
            self.rest = self.rest or _Node()
            return self.rest
        return self.literals.setdefault(str(segment), _Node())


class Router(Generic[T]):
    """Targets by HTTP method and path: a literal beats `*`, `*` beats `**`, in any order added.

    The path alone decides which template it is, so that a method which that one has not leads
    nowhere, even if a template with a variable in the literal's place has it.
    """

    def __init__(self) -> None:
        self._root: _Node[T] = _Node()
        self._methods: set[str] = set()
        self._verbs: dict[str, set[str]] = {}

    def reserve(self, segment: str) -> None:
        """Keep paths that begin with a segment from wildcards: only literal routes match them."""
        self._root.into(segment).closed = True

    def add(self, method: str, template: Template, target: T) -> None:
        """Add a route; TemplateError if another one of this method has the same shape."""
        node = self._root
        for segment in template.segments:
            node = node.into(segment)
        ends = node.ends.setdefault(template.verb, {})
        if method in ends:
            other = ends[method][1].text
            raise TemplateError(f"{method} {template.text!r} has the same shape as {other!r}")
        ends[method] = (target, template)
        self._methods.add(method)
        if template.verb:
            self._verbs.setdefault(method, set()).add(template.verb)

    def find(self, method: str, path: str) -> tuple[T, tuple[str, ...]] | None:
        """The target of an undecoded path, with the values of its template's variables in order.

        PathError if the path holds a malformed escape or a value that is not UTF-8.
        """
        if method not in self._methods or not path.startswith("/"):
            return None
        raw = path.split("/")
        del raw[0]
        if verbs := self._verbs.get(method):
            base, colon, verb = raw[-1].rpartition(":")
            if colon and verb in verbs:
                found = _find(self._root, [*raw[:-1], base], verb, method)
                if found is not None:
                    return found
        return _find(self._root, raw, "", method)

    def methods(self, path: str) -> list[str]:
        """Every method that has a route for the path, in order of the alphabet."""
        return sorted(method for method in self._methods if self.find(method, path) is not None)


def _find(
    root: _Node[T], raw: list[str], verb: str, method: str
) -> tuple[T, tuple[str, ...]] | None:
    parts = [_decode(part) if "%" in part else part for part in raw]
    ends = _walk(root, parts, 0, verb)
    if ends is None or method not in ends:
        return None
    target, template = ends[method]
    return target, tuple(
        [
            _decode_several(raw[v.start : v.end]) if v.several else parts[v.start]
            for v in template.variables
        ]
    )


def _walk(node: _Node[T], parts: list[str], at: int, verb: str) -> _Ends[T] | None:
    # most of a path has one way on
    while at < len(parts) and node.one is None and node.rest is None:
        straight = node.literals.get(parts[at])
        if straight is None:
            return None
        node = straight
        at += 1
    if at == len(parts):
        end = node.ends.get(verb)
        if end is None and node.rest is not None:
            end = node.rest.ends.get(verb)
        return end
    part = parts[at]
    onward = node.literals.get(part)
    if onward is not None:
        end = _walk(onward, parts, at + 1, verb)
        if end is not None or onward.closed:
            return end
    if node.one is not None and part and (end := _walk(node.one, parts, at + 1, verb)) is not None:
        return end
    return node.rest.ends.get(verb) if node.rest is not None else None


def _decode(text: str) -> str:
    if _BAD_ESCAPE.search(text):
        raise PathError("a malformed escape")
    try:
        return unquote_to_bytes(text).decode("utf-8")
    except UnicodeDecodeError:
        raise PathError("text that is not UTF-8") from None


def _decode_several(raw: Iterable[str]) -> str:
    return "/".join(
        "".join(
            piece if _SLASH.fullmatch(piece) else _decode(piece) for piece in _SLASH.split(segment)
        )
        if "%" in segment
        else segment
        for segment in raw
    )
