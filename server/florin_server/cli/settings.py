"""Load the settings of a command, and configure its log."""

from __future__ import annotations

import logging
import os
from typing import Any, NoReturn

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import SettingsError

from florin_server.app import log_redaction
from florin_server.app.sandbox import without_missing_sandbox
from florin_server.base import logs
from florin_server.cli.console import fail, use_log
from florin_server.cli.exits import ExitStatus
from florin_server.settings import Settings


def get_settings(overrides: dict[str, Any]) -> Settings:
    """Load the settings; end the program with one sentence if they are not valid."""
    try:
        return without_missing_sandbox(Settings(**overrides))
    except ValidationError as error:
        _fail_invalid("; ".join(map(_format_error, error.errors())))
    except SettingsError as error:
        _fail_invalid(error)


def _fail_invalid(reason: object) -> NoReturn:
    fail("The settings are not valid", reason, ExitStatus.USAGE_ERROR)


def _format_error(error: ErrorDetails) -> str:
    """Return the message of an error, after the name of its setting if it has one."""
    message = error["msg"].removeprefix("Value error, ")
    return f"{_format_setting_name(error['loc'])}: {message}" if error["loc"] else message


def _format_setting_name(path: tuple[int | str, ...]) -> str:
    """Return the environment variable of a setting; members of lists have none, only a path."""
    if any(isinstance(part, int) for part in path):
        return ".".join(map(str, path))
    return "FLORIN_" + "__".join(map(str, path)).upper()


def log_to_stderr(settings: Settings, process: int | None = None) -> None:
    """Log to stderr: Florin's own loggers from INFO on, all others from WARNING on.

    In JSON every line is an object: the output of commands is logged, and output that cannot be
    JSON is off. `process` is the number of this process under its supervisor, from 1.
    """
    log_redaction.hide_settings(settings)
    logging.basicConfig(handlers=[logs.create_handler(settings.log_format, process)])
    logs.install_exception_logging()
    if settings.log_format == "json":
        use_log()
        # the core of gRPC writes lines of its own, past Python
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    for name in ("florin_server", "grpc_rest_gateway", "florin_sandbox"):
        logging.getLogger(name).setLevel(logging.INFO)
    # bytes that are not HTTP are not worth a line, or a traceback, in the log
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)
