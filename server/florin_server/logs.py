"""Log lines that programs can read, and that hold no secret.

A line says which request, payment, payout, transaction and chain it is about. The request and the
chain are those in whose context it was written; the others are found among what the line was made
with: an argument that as a whole has the form of a payment's id is one.

The formatters are the standard library's: every module logs through it already, and so do the
libraries in use, whose lines pass here too.
"""

from __future__ import annotations

import logging
import re
import sys
import threading
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from datetime import UTC, datetime
from textwrap import indent
from types import TracebackType
from typing import Final, Literal

import orjson

from florin_server.domain.text import escape_unsafe

Form = Literal["text", "json"]

_log = logging.getLogger(__name__)

REQUEST: ContextVar[str] = ContextVar("florin_request_id", default="")
CHAIN: ContextVar[str] = ContextVar("florin_chain", default="")
TRACE: ContextVar[str] = ContextVar("florin_trace_id", default="")

# a line is cut to so many characters: what others send must not fill a disk
_CHARS_MAX: Final = 8192
# shorter values of secrets would hide ordinary words
_SECRET_MIN: Final = 8
_GONE: Final = "[hidden]"

_SHAPES: Final = (
    ("payment_id", re.compile(r"pay_[A-Za-z0-9_-]{1,60}")),
    ("payout_id", re.compile(r"(?:pout|rfnd)_[0-9A-Za-z]{17}")),
    ("tx_id", re.compile(r"0x[0-9a-f]{64}|[1-9A-HJ-NP-Za-km-z]{86,88}")),
    ("chain", re.compile(r"eip155:\d{1,20}|solana:[1-9A-HJ-NP-Za-km-z]{32}")),
)
# Whoever calls may choose some of a text, and of its length: every pattern looks at a bounded
# stretch from each place. What of an address may be told: who is reached, not what with
_URL = re.compile(
    r"(?i)\b([a-z][a-z0-9+.-]{1,20}://)(?:[^\s/?#@\"'<>]*@)?([^\s/?#@\"'<>]*)([^\s\"'<>]*)"
)
_KEY = re.compile(r"\bfl_(live|test)_(pk|wk)_([0-9A-Za-z]{8})_[0-9A-Za-z]+")
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}")
_NAMED = re.compile(
    r"(?i)((?:password|passwd|secret|token|api[-_]?key|authorization)[\w-]{0,32}[\"']?)"
    r"(\s{0,4}=\s{0,4}|(?<=[\"'])\s{0,4}:\s{0,4}|:\s*(?=bearer|basic))[\"']?[^\s\"',;&)}\]]+"
)
_EMAIL = re.compile(r"[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,8}")


class Redactor:
    """Takes out of a text what must not be kept: secrets that are known, and what looks like one.

    Of URLs the host stays, of API keys the id.
    """

    def __init__(self) -> None:
        self._known: list[str] = []

    def hide(self, secrets: Iterable[str]) -> None:
        """Makes values known; those of fewer than 8 characters are left alone."""
        known = {*self._known, *(one for one in secrets if len(one) >= _SECRET_MIN)}
        # one may be a part of another
        self._known = sorted(known, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        """The text without them."""
        for one in self._known:
            if one in text:
                text = text.replace(one, _GONE)
        text = _URL.sub(_host, text)
        text = _KEY.sub(rf"fl_\1_\2_\3_{_GONE}", text)
        text = _BEARER.sub(rf"\1 {_GONE}", text)
        text = _NAMED.sub(rf"\1\2{_GONE}", text)
        return _EMAIL.sub(_GONE, text)


def _host(found: re.Match[str]) -> str:
    scheme, host, rest = found.groups()
    if "@" in rest:
        # a password may hold what ends a host, and then this is no host
        return f"{scheme}{_GONE}"
    # what follows a sentence's last word is no part of it
    end = rest if not rest.strip(".,;:)/") else "/..."
    return f"{scheme}{host}{end}"


class Lines(logging.Formatter):
    """Lines of text, for people; `process` is the number of this one among several, from 1."""

    def __init__(self, redact: Redactor, process: int | None = None) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")
        self._redact = redact
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        """One line, and those of a traceback."""
        message, trace = _said(record, self._redact)
        fields = _fields(record, self._redact, self._process)
        told = [f"{name}={value}" for name, value in fields if value not in message]
        about = f" [{' '.join(told)}]" if told else ""
        head = f"{self.formatTime(record)} {record.levelname} {record.name} "
        # nobody may move the cursor, or begin a line that was not written: an error's text may
        # have lines, and those of a traceback begin otherwise than a line of the log
        line = escape_unsafe(f"{head}{message}{about}")
        return f"{line}\n{indent(escape_unsafe(trace, multiline=True), '    ')}" if trace else line


class JsonLines(logging.Formatter):
    """One JSON object a line, for programs; `process` as for `Lines`."""

    def __init__(self, redact: Redactor, process: int | None = None) -> None:
        super().__init__()
        self._redact = redact
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        message, trace = _said(record, self._redact)
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        told = {
            "time": at.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": message,
            **dict(_fields(record, self._redact, self._process)),
        }
        if trace:
            told["error"] = trace
        clean = {name: escape_unsafe(text, multiline=True) for name, text in told.items()}
        return orjson.dumps(clean).decode()


def _said(record: logging.LogRecord, redact: Redactor) -> tuple[str, str]:
    """The message and the traceback, without secrets and of bounded length."""
    try:
        message = record.getMessage()
    except (TypeError, ValueError):
        # a library's mistake in its own line is no reason to lose it
        message = str(record.msg)
    trace = ""
    if record.exc_info:
        trace = logging.Formatter().formatException(record.exc_info)
    return redact(message)[:_CHARS_MAX], redact(trace)[-_CHARS_MAX:]


def about_process(number: int) -> dict[str, int]:
    """Return the `extra` of a line that is about the process with a number, from 0."""
    return {"process_number": number + 1}


def _fields(
    record: logging.LogRecord, redact: Redactor, process: int | None
) -> Iterator[tuple[str, str]]:
    """What a line is about, each at most once."""
    if number := getattr(record, "process_number", None) or process:
        yield "process", str(number)
    if request := getattr(record, "request_id", "") or REQUEST.get():
        yield "request_id", request
    if trace := TRACE.get():
        yield "trace_id", trace
    found = {"chain": CHAIN.get()} if CHAIN.get() else {}
    arguments = record.args if isinstance(record.args, tuple) else ()
    for one in arguments:
        if isinstance(one, str):
            for name, shape in _SHAPES:
                # a key may look like a hash
                if shape.fullmatch(one) and redact(one) == one:
                    found[name] = one
    yield from found.items()


# what no line of this process may hold
redactor: Final = Redactor()


def handler(form: Form, process: int | None = None) -> logging.Handler:
    """Writes lines to stderr; `process` is the number of this one among several, from 1."""
    made = logging.StreamHandler()
    form_of = JsonLines if form == "json" else Lines
    made.setFormatter(form_of(redactor, process))
    return made


def log_everything() -> None:
    """Log what Python would write to stderr by itself: warnings, and errors that nobody caught.

    Such lines are of the same form as all others, and hold no secrets either.
    """
    logging.captureWarnings(capture=True)
    sys.excepthook = _log_uncaught
    threading.excepthook = lambda told: _log_uncaught(
        told.exc_type, told.exc_value or told.exc_type(), told.exc_traceback
    )
    sys.unraisablehook = lambda told: _log_uncaught(
        told.exc_type, told.exc_value or told.exc_type(), told.exc_traceback
    )


def _log_uncaught(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    if issubclass(kind, KeyboardInterrupt | SystemExit):
        return
    _log.critical("nobody caught %s", kind.__name__, exc_info=(kind, error, trace))
