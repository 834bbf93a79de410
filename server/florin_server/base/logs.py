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

LogFormat = Literal["text", "json"]

_log = logging.getLogger(__name__)

REQUEST: ContextVar[str] = ContextVar("florin_request_id", default="")
CHAIN: ContextVar[str] = ContextVar("florin_chain", default="")
TRACE: ContextVar[str] = ContextVar("florin_trace_id", default="")

# a line is cut to this length: callers' input must not fill a disk
_CHARS_MAX: Final = 8192
# hiding shorter secrets would hide ordinary words
_SECRET_MIN: Final = 8
_REDACTED: Final = "[hidden]"

_SHAPES: Final = (
    ("payment_id", re.compile(r"pay_[A-Za-z0-9_-]{1,60}")),
    ("payout_id", re.compile(r"(?:pout|rfnd)_[0-9A-Za-z]{17}")),
    ("tx_id", re.compile(r"0x[0-9a-f]{64}|[1-9A-HJ-NP-Za-km-z]{86,88}")),
    ("chain", re.compile(r"eip155:\d{1,20}|solana:[1-9A-HJ-NP-Za-km-z]{32}")),
)
# Callers can choose parts of a text, and its length: every pattern checks a bounded stretch from
# each place. Of a URL the log can show who is reached, but no secret
_URL = re.compile(
    r"(?i)\b([a-z][a-z0-9+.-]{1,20}://)(?:[^\s/?#@\"'<>]*@)?([^\s/?#@\"'<>]*)([^\s\"'<>]*)"
)
_KEY = re.compile(r"\bfl_(live|test)_(pk|wk)_([0-9A-Za-z]{8})_[0-9A-Za-z]+")
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}")
_NAMED_SECRET = re.compile(
    r"(?i)((?:password|passwd|secret|token|api[-_]?key|authorization)[\w-]{0,32}[\"']?)"
    r"(\s{0,4}=\s{0,4}|(?<=[\"'])\s{0,4}:\s{0,4}|:\s*(?=bearer|basic))[\"']?[^\s\"',;&)}\]]+"
)
_EMAIL = re.compile(r"[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,8}")


class Redactor:
    """Takes out of a text what must not be kept: secrets that are known, and what looks like one.

    Of URLs the host stays, of API keys the id.
    """

    def __init__(self) -> None:
        self._secrets: list[str] = []

    def hide(self, secrets: Iterable[str]) -> None:
        """Hide more values; those of fewer than 8 characters are ignored."""
        all_secrets = {
            *self._secrets,
            *(secret for secret in secrets if len(secret) >= _SECRET_MIN),
        }
        # one can be a part of another
        self._secrets = sorted(all_secrets, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        """Return the text without them."""
        for secret in self._secrets:
            if secret in text:
                text = text.replace(secret, _REDACTED)
        text = _URL.sub(_redact_url, text)
        text = _KEY.sub(rf"fl_\1_\2_\3_{_REDACTED}", text)
        text = _BEARER.sub(rf"\1 {_REDACTED}", text)
        text = _NAMED_SECRET.sub(rf"\1\2{_REDACTED}", text)
        return _EMAIL.sub(_REDACTED, text)


def _redact_url(match: re.Match[str]) -> str:
    scheme, host, rest = match.groups()
    if "@" in rest:
        # a password can contain what ends a host, and then this is no host
        return f"{scheme}{_REDACTED}"
    # what follows a sentence's last word is no part of it
    end = rest if not rest.strip(".,;:)/") else "/..."
    return f"{scheme}{host}{end}"


class TextLogFormatter(logging.Formatter):
    """Lines of text, for people; `process` is the number of this process among several, from 1."""

    def __init__(self, redact: Redactor, process: int | None = None) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")
        self._redact = redact
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        """Return one line, and those of a traceback."""
        message, trace = _format_message(record, self._redact)
        fields = _list_fields(record, self._redact, self._process)
        report = [f"{name}={value}" for name, value in fields if value not in message]
        about = f" [{' '.join(report)}]" if report else ""
        head = f"{self.formatTime(record)} {record.levelname} {record.name} "
        # no text can move the cursor or fake a log line: an error's text can have lines, and those
        # of a traceback begin in another way than a line of the log
        line = escape_unsafe(f"{head}{message}{about}")
        return f"{line}\n{indent(escape_unsafe(trace, multiline=True), '    ')}" if trace else line


class JsonLogFormatter(logging.Formatter):
    """One JSON object a line, for programs; `process` as for `TextLogFormatter`."""

    def __init__(self, redact: Redactor, process: int | None = None) -> None:
        super().__init__()
        self._redact = redact
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        message, trace = _format_message(record, self._redact)
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        report = {
            "time": at.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": message,
            **dict(_list_fields(record, self._redact, self._process)),
        }
        if trace:
            report["error"] = trace
        clean = {name: escape_unsafe(text, multiline=True) for name, text in report.items()}
        return orjson.dumps(clean).decode()


def _format_message(record: logging.LogRecord, redact: Redactor) -> tuple[str, str]:
    """Return the message and the traceback, without secrets and of bounded length."""
    try:
        message = record.getMessage()
    except (TypeError, ValueError):
        # a library's mistake in its own line is no reason to lose it
        message = str(record.msg)
    trace = ""
    if record.exc_info:
        trace = logging.Formatter().formatException(record.exc_info)
    return redact(message)[:_CHARS_MAX], redact(trace)[-_CHARS_MAX:]


def build_process_extra(number: int) -> dict[str, int]:
    """Return the `extra` of a line that is about the process with a number, from 0."""
    return {"process_number": number + 1}


def _list_fields(
    record: logging.LogRecord, redact: Redactor, process: int | None
) -> Iterator[tuple[str, str]]:
    """Return the subjects of a line, each at most once."""
    if number := getattr(record, "process_number", None) or process:
        yield "process", str(number)
    if request := getattr(record, "request_id", "") or REQUEST.get():
        yield "request_id", request
    if trace := TRACE.get():
        yield "trace_id", trace
    fields = {"chain": CHAIN.get()} if CHAIN.get() else {}
    arguments = record.args if isinstance(record.args, tuple) else ()
    for argument in arguments:
        if isinstance(argument, str):
            for name, shape in _SHAPES:
                # a key can look like a hash
                if shape.fullmatch(argument) and redact(argument) == argument:
                    fields[name] = argument
    yield from fields.items()


# the secrets of this process
redactor: Final = Redactor()


def create_handler(log_format: LogFormat, process: int | None = None) -> logging.Handler:
    """Return a handler for stderr.

    `process` is the number of this process among several, from 1.
    """
    stream_handler = logging.StreamHandler()
    form_of = JsonLogFormatter if log_format == "json" else TextLogFormatter
    stream_handler.setFormatter(form_of(redactor, process))
    return stream_handler


def install_exception_logging() -> None:
    """Log what Python would write to stderr: warnings, and uncaught errors.

    Such lines have the form of all others, and contain no secrets either.
    """
    logging.captureWarnings(capture=True)
    sys.excepthook = _log_uncaught
    threading.excepthook = lambda message: _log_uncaught(
        message.exc_type, message.exc_value or message.exc_type(), message.exc_traceback
    )
    sys.unraisablehook = lambda message: _log_uncaught(
        message.exc_type, message.exc_value or message.exc_type(), message.exc_traceback
    )


def _log_uncaught(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    if issubclass(kind, KeyboardInterrupt | SystemExit):
        return
    _log.critical("uncaught exception: %s", kind.__name__, exc_info=(kind, error, trace))
