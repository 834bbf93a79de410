"""The settings of a command, and its log."""

from __future__ import annotations

import logging
import os
from typing import Any, NoReturn

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import SettingsError

from florin_server import logs
from florin_server.boot import hidden
from florin_server.cli.console import fail, use_log
from florin_server.cli.exits import Exit
from florin_server.config import Settings


def settings_of(given: dict[str, Any]) -> Settings:
    """The settings; ends the program with a sentence if they are not valid."""
    try:
        return Settings(**given)
    except ValidationError as error:
        _invalid("; ".join(map(_sentence, error.errors())))
    except SettingsError as error:
        _invalid(error)


def _invalid(why: object) -> NoReturn:
    fail("The settings are not valid", why, Exit.MISUSED)


def _sentence(fault: ErrorDetails) -> str:
    """What is wrong, behind its place if it has one."""
    said = fault["msg"].removeprefix("Value error, ")
    return f"{_place(fault['loc'])}: {said}" if fault["loc"] else said


def _place(path: tuple[int | str, ...]) -> str:
    """A setting as the environment names it; members of lists have no such name."""
    if any(isinstance(part, int) for part in path):
        return ".".join(map(str, path))
    return "FLORIN_" + "__".join(map(str, path)).upper()


def log_to_stderr(settings: Settings, process: int | None = None) -> None:
    """Lets Florin log from INFO on and everybody else from WARNING on.

    In JSON all lines are objects: what commands say is logged, and what has no such form is silent.
    `process` is the number of this one among those of a supervisor, from 1.
    """
    hidden.hide(settings)
    logging.basicConfig(handlers=[logs.handler(settings.log_format, process)])
    logs.log_everything()
    if settings.log_format == "json":
        use_log()
        # the core of gRPC writes lines of its own, past Python
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    for name in ("florin_server", "florin_gateway"):
        logging.getLogger(name).setLevel(logging.INFO)
    # a stranger's bytes that are no HTTP are no news: a line each, or a page of traceback
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)
