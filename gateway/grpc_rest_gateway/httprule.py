"""Paths of google.api.http: templates, and a router that matches undecoded request paths.

Template grammar: "/" segments, optionally a verb. A segment is a literal, `*` (exactly one
non-empty segment), `**` (the rest, possibly empty; last only) or a variable
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
_RouteTargets: TypeAlias = dict[str, tuple[T, "PathTemplate"]]


class TemplateError(ValueError):
    """A template that is not a valid route."""


class PathError(ValueError):
    """A request path with a malformed escape, or with bytes that are not UTF-8."""


class PathWildcard(Enum):
    """A wildcard segment."""

    ONE = "*"
    REST = "**"


PathSegment: TypeAlias = str | PathWildcard


@dataclass(frozen=True, slots=True)
class PathVariable:
    """Segments `start` to `end` (None: to the last) of a path, bound to a field.

    A value of several segments keeps encoded slashes encoded, so that they differ from separators.
    """

    field_path: tuple[str, ...]
    start: int
    end: int | None
    is_multi_segment: bool


@dataclass(frozen=True, slots=True)
class PathTemplate:
    """A parsed path template; the verb is empty without a verb."""

    text: str
    segments: tuple[PathSegment, ...]
    verb: str
    variables: tuple[PathVariable, ...]


# the path "/", which no template can express
ROOT = PathTemplate("/", ("",), "", ())

_FIELD_PATH = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*")
_LITERAL = re.compile(r"[^/{}*:]+")
_FORBIDDEN_CHARACTERS = re.compile(r"[\s?#]|[^\x21-\x7e]")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_ENCODED_SLASH = re.compile(r"(%2[Ff])")


class _TemplateParser:
    """Parser of one template, in one pass."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.segments: list[PathSegment] = []
        self.variables: list[PathVariable] = []

    def make_error(self, why: str) -> TemplateError:
        return TemplateError(f"{self.text!r}: {why} at character {self.position}")

    def is_next(self, symbol: str) -> bool:
        return self.text.startswith(symbol, self.position)

    def accept(self, symbol: str) -> bool:
        is_accepted = self.is_next(symbol)
        self.position += len(symbol) if is_accepted else 0
        return is_accepted

    def parse(self) -> PathTemplate:
        if bad := _FORBIDDEN_CHARACTERS.search(self.text):
            self.position = bad.start()
            raise self.make_error("a blank, a query or a character that must be encoded")
        if not self.accept("/"):
            raise self.make_error("a template must start with a slash")
        self.parse_segment(in_variable=False)
        while self.accept("/"):
            self.parse_segment(in_variable=False)
        verb = self.parse_verb() if self.accept(":") else ""
        if self.position != len(self.text):
            raise self.make_error("unexpected text")
        if PathWildcard.REST in self.segments[:-1]:
            raise self.make_error("** is not last")
        paths = [variable.field_path for variable in self.variables]
        if len(set(paths)) != len(paths):
            raise self.make_error("a field is bound twice")
        return PathTemplate(self.text, tuple(self.segments), verb, tuple(self.variables))

    def parse_segment(self, *, in_variable: bool) -> None:
        if self.is_next("{"):
            if in_variable:
                raise self.make_error("a variable is nested in a variable")
            self.parse_variable()
        elif self.accept("**"):
            self.segments.append(PathWildcard.REST)
        elif self.accept("*"):
            self.segments.append(PathWildcard.ONE)
        else:
            self.segments.append(self.parse_literal())

    def parse_variable(self) -> None:
        self.accept("{")
        match = _FIELD_PATH.match(self.text, self.position)
        if match is None:
            raise self.make_error("a field path is not an identifier")
        self.position = match.end()
        start = len(self.segments)
        if self.accept("="):
            self.parse_segment(in_variable=True)
            while self.accept("/"):
                self.parse_segment(in_variable=True)
        else:
            self.segments.append(PathWildcard.ONE)
        if not self.accept("}"):
            raise self.make_error("an unclosed variable")
        end = len(self.segments)
        rest = self.segments[-1] is PathWildcard.REST
        self.variables.append(
            PathVariable(
                tuple(match[0].split(".")),
                start,
                None if rest else end,
                is_multi_segment=rest or end - start > 1,
            )
        )

    def parse_literal(self) -> str:
        match = _LITERAL.match(self.text, self.position)
        if match is None:
            raise self.make_error("an empty segment")
        self.position = match.end()
        try:
            return _decode_segment(match[0])
        except PathError as error:
            raise self.make_error(str(error)) from None

    def parse_verb(self) -> str:
        verb = self.parse_literal()
        if self.position != len(self.text):
            raise self.make_error("a verb is not at the end")
        return verb


def parse_template(text: str) -> PathTemplate:
    """Parse one template; the TemplateError has the reason and the position."""
    return _TemplateParser(text).parse()


class _RouteNode(Generic[T]):
    """A node of the trie: its children, and targets of paths that end here, by verb and method."""

    __slots__ = ("is_reserved", "literal_children", "rest_child", "single_child", "targets_by_verb")

    def __init__(self) -> None:
        # paths that reach this node end here, or do not match
        self.is_reserved = False
        self.literal_children: dict[str, _RouteNode[T]] = {}
        self.single_child: _RouteNode[T] | None = None
        self.rest_child: _RouteNode[T] | None = None
        self.targets_by_verb: dict[str, _RouteTargets[T]] = {}

    def get_or_add_child(self, segment: PathSegment) -> _RouteNode[T]:
        if segment is PathWildcard.ONE:
            self.single_child = self.single_child or _RouteNode()
            return self.single_child
        if segment is PathWildcard.REST:
            self.rest_child = self.rest_child or _RouteNode()
            return self.rest_child
        return self.literal_children.setdefault(str(segment), _RouteNode())


class PathRouter(Generic[T]):
    """Targets by HTTP method and path: a literal beats `*`, `*` beats `**`, added in any order.

    The path alone selects the template. If that template lacks the method, nothing matches, even if
    a template with a variable instead of the literal has the method.
    """

    def __init__(self) -> None:
        self._root: _RouteNode[T] = _RouteNode()
        self._methods: set[str] = set()
        self._verbs_by_method: dict[str, set[str]] = {}

    def reserve(self, segment: str) -> None:
        """Reserve paths that start with a segment: only literal routes match them."""
        self._root.get_or_add_child(segment).is_reserved = True

    def add(self, method: str, template: PathTemplate, target: T) -> None:
        """Add a route; raise TemplateError if another route of this method has the same shape."""
        node = self._root
        for segment in template.segments:
            node = node.get_or_add_child(segment)
        ends = node.targets_by_verb.setdefault(template.verb, {})
        if method in ends:
            other = ends[method][1].text
            raise TemplateError(f"{method} {template.text!r} has the same shape as {other!r}")
        ends[method] = (target, template)
        self._methods.add(method)
        if template.verb:
            self._verbs_by_method.setdefault(method, set()).add(template.verb)

    def find_route(self, method: str, path: str) -> tuple[T, tuple[str, ...]] | None:
        """Return the target of an undecoded path, with the values of its variables in order.

        Raise PathError if the path has a malformed escape or a value that is not UTF-8.
        """
        if method not in self._methods or not path.startswith("/"):
            return None
        raw = path.split("/")
        del raw[0]
        if verbs := self._verbs_by_method.get(method):
            base, colon, verb = raw[-1].rpartition(":")
            if colon and verb in verbs:
                target = _find_target(self._root, [*raw[:-1], base], verb, method)
                if target is not None:
                    return target
        return _find_target(self._root, raw, "", method)

    def list_methods(self, path: str) -> list[str]:
        """List the methods that have a route for the path, sorted."""
        return sorted(
            method for method in self._methods if self.find_route(method, path) is not None
        )


def _find_target(
    root: _RouteNode[T], segments: list[str], verb: str, method: str
) -> tuple[T, tuple[str, ...]] | None:
    parts = [_decode_segment(part) if "%" in part else part for part in segments]
    ends = _find_targets(root, parts, 0, verb)
    if ends is None or method not in ends:
        return None
    target, template = ends[method]
    return target, tuple(
        [
            _decode_segments(segments[v.start : v.end]) if v.is_multi_segment else parts[v.start]
            for v in template.variables
        ]
    )


def _find_targets(
    node: _RouteNode[T], parts: list[str], index: int, verb: str
) -> _RouteTargets[T] | None:
    # most segments of a path have one candidate
    while index < len(parts) and node.single_child is None and node.rest_child is None:
        straight = node.literal_children.get(parts[index])
        if straight is None:
            return None
        node = straight
        index += 1
    if index == len(parts):
        end = node.targets_by_verb.get(verb)
        if end is None and node.rest_child is not None:
            end = node.rest_child.targets_by_verb.get(verb)
        return end
    part = parts[index]
    onward = node.literal_children.get(part)
    if onward is not None:
        end = _find_targets(onward, parts, index + 1, verb)
        if end is not None or onward.is_reserved:
            return end
    if (
        node.single_child is not None
        and part
        and (end := _find_targets(node.single_child, parts, index + 1, verb)) is not None
    ):
        return end
    return node.rest_child.targets_by_verb.get(verb) if node.rest_child is not None else None


def _decode_segment(text: str) -> str:
    if _BAD_ESCAPE.search(text):
        raise PathError("a malformed escape")
    try:
        return unquote_to_bytes(text).decode("utf-8")
    except UnicodeDecodeError:
        raise PathError("text that is not UTF-8") from None


def _decode_segments(segments: Iterable[str]) -> str:
    return "/".join(
        "".join(
            piece if _ENCODED_SLASH.fullmatch(piece) else _decode_segment(piece)
            for piece in _ENCODED_SLASH.split(segment)
        )
        if "%" in segment
        else segment
        for segment in segments
    )
