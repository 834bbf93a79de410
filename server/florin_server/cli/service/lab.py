"""`florin lab`: the notebooks in Jupyter, with a sandbox that runs beside them."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

import florin_server
from florin_server.boot.home import Home
from florin_server.cli.console import console, fail, note
from florin_server.cli.prompt import Prompt
from florin_server.cli.service import up
from florin_server.cli.service.demo import DEMO_OFF
from florin_server.cli.service.signals import run_until_signalled
from florin_server.cli.settings import settings_of

_FAILED = "The lab does not open"
_DISTRIBUTION, _EXTRA = "florin-pay", "notebooks"
_PACKAGE = Path(florin_server.__file__).parent
# a name that only notebooks of ours have
_FIRST = "00_start_here.ipynb"


# as long as kernels may take to end
_PATIENCE_S = 20


class _JupyterFailed(Exception):  # noqa: N818  (an outcome, told to whoever opened the lab)
    pass


def run(
    given: dict[str, Any], folder: Path | None, port: int | None, *, browser: bool, yes: bool
) -> None:
    """Runs until Jupyter is shut down, or Ctrl-C."""
    _install_missing(quiet=yes)
    opened = _pack(folder)
    options = [] if browser else ["--no-browser"]
    # a port that was asked for is that one or none
    options += [f"--port={port}", "--ServerApp.port_retries=0"] if port is not None else []
    # the only user that a container has; Jupyter listens on this machine and asks for its token
    options += ["--allow-root"] if os.geteuid() == 0 else []

    async def jupyter(env: Mapping[str, str]) -> None:
        await _jupyter(opened, options, env)

    try:
        _open(given, jupyter)
    except _JupyterFailed as error:
        fail(_FAILED, error)


def _open(given: dict[str, Any], jupyter: up.Work) -> None:
    """Runs Jupyter on a Florin elsewhere, on one that runs here, or on one that is started."""
    if os.environ.get("FLORIN_TARGET"):
        console.print(f"The notebooks talk to {os.environ['FLORIN_TARGET']}.")
        run_until_signalled(jupyter({}))
        return
    settings = settings_of(given)
    if not settings.has_demo:
        fail(_FAILED, DEMO_OFF)
    home = Home(settings.home)
    if home.addresses() is None:
        up.run(given, beside=jupyter)
    else:
        run_until_signalled(jupyter(home.read_demo_env()))


def _install_missing(*, quiet: bool) -> None:
    """Installs what notebooks need and is not there; asks first, unless it is `quiet`."""
    wanted = [
        one
        for one in map(Requirement, metadata.requires(_DISTRIBUTION) or ())
        if one.marker is not None and one.marker.evaluate({"extra": _EXTRA})
    ]
    missing = [one for one in wanted if not _fits(one)]
    if not missing:
        return
    names = ", ".join(one.name for one in missing)
    command = f"pip install '{_DISTRIBUTION}[{_EXTRA}]'"
    if not quiet and not sys.stdin.isatty():
        fail(_FAILED, f"{names} is missing: {command}, or say --yes to have it installed")
    if not Prompt(quiet=quiet).sure(f"Notebooks need {names}. Install it?", usual=True):
        fail(_FAILED, f"{names} is missing: {command}")
    if find_spec("pip") is None:
        fail(_FAILED, f"{names} is missing, and this environment has no pip to install it with")
    needed = [f"{one.name}{one.specifier}" for one in missing]
    installing = [sys.executable, "-m", "pip", "install", "--quiet", *needed]
    if subprocess.run(installing, check=False).returncode:  # noqa: S603  (names of our own)
        fail(_FAILED, f"{names} could not be installed: {command}")


def _fits(wanted: Requirement) -> bool:
    try:
        return wanted.specifier.contains(metadata.version(wanted.name), prereleases=True)
    except metadata.PackageNotFoundError:
        return False


def _pack(folder: Path | None) -> Path:
    """The folder that is opened: that of a checkout, or one with copies of what was installed.

    What is in a folder already stays as it is: it may have been worked on.
    """
    checkout = _PACKAGE.parents[1] / "notebooks"
    if folder is None and (checkout / _FIRST).exists():
        return checkout
    source = checkout if (checkout / _FIRST).exists() else _PACKAGE / "notebooks"
    folder = folder or Path("florin-notebooks")
    kept = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for one in sorted(source.glob("*.*")):
            if (folder / one.name).exists():
                kept.append(one.name)
            else:
                shutil.copyfile(one, folder / one.name)
    except OSError as error:
        fail(_FAILED, error)
    if kept:
        note(f"In {folder}, {len(kept)} files were there already and stay as they are.")
    return folder


async def _jupyter(folder: Path, options: list[str], env: Mapping[str, str]) -> None:
    """Runs Jupyter until it ends by itself; a failure of it ends the program."""
    # not asyncio's: that forks, which gRPC remarks on
    jupyter = subprocess.Popen(  # noqa: ASYNC220, S603  (begun in an instant; words of our own)
        [sys.executable, "-m", "jupyterlab", *options],
        cwd=folder,
        env={**os.environ, **env},
        # Ctrl-C is ours: Jupyter asks whether it is meant, and hangs if it is told twice
        start_new_session=True,
    )
    try:
        status = await asyncio.to_thread(jupyter.wait)
    finally:
        jupyter.terminate()
        await asyncio.to_thread(_ended, jupyter)
    if status:
        raise _JupyterFailed(f"Jupyter ended with status {status}")


def _ended(process: subprocess.Popen[bytes]) -> None:
    """Returns when it has ended; after a while it is made to."""
    try:
        process.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
