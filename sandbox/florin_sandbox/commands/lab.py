"""`florin lab`: open the notebooks in Jupyter, with a running sandbox."""

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

from florin_server.app.home import StateFolder
from florin_server.cli.console import console, fail, print_hint
from florin_server.cli.prompt import OperatorPrompt
from florin_server.cli.service import up
from florin_server.cli.service.signals import run_until_signalled
from florin_server.cli.settings import get_settings
from packaging.requirements import Requirement

import florin_sandbox
from florin_sandbox.commands.demo import DEMO_DISABLED

_FAILED = "The lab failed"
_DISTRIBUTION, _EXTRA = "florin-sandbox", "notebooks"
_PACKAGE = Path(florin_sandbox.__file__).parent
# a file name that only Florin's notebooks have
_FIRST_NOTEBOOK = "00_start_here.ipynb"


# the time that kernels get to end
_STOP_TIMEOUT_S = 20


class _JupyterFailed(Exception):  # noqa: N818  (an outcome that the command reports)
    pass


def run_lab(
    overrides: dict[str, Any],
    folder: Path | None,
    port: int | None,
    *,
    opens_browser: bool,
    yes: bool,
) -> None:
    """Run until Jupyter shuts down, or Ctrl-C."""
    _install_missing(is_quiet=yes)
    opened = _prepare_folder(folder)
    options = [] if opens_browser else ["--no-browser"]
    # a requested port must not fall back to another one
    options += [f"--port={port}", "--ServerApp.port_retries=0"] if port is not None else []
    # root is often the only user of a container; Jupyter listens locally and requires its token
    options += ["--allow-root"] if os.geteuid() == 0 else []

    async def jupyter(env: Mapping[str, str]) -> None:
        await _run_jupyter(opened, options, env)

    try:
        _run_with_service(overrides, jupyter)
    except _JupyterFailed as error:
        fail(_FAILED, error)


def _run_with_service(overrides: dict[str, Any], run_jupyter: up.ServiceTask) -> None:
    """Run Jupyter with FLORIN_TARGET, with the Florin that runs here, or with a new one."""
    if os.environ.get("FLORIN_TARGET"):
        console.print(f"The notebooks use the Florin at {os.environ['FLORIN_TARGET']}.")
        run_until_signalled(run_jupyter({}))
        return
    settings = get_settings(overrides)
    if not settings.has_demo:
        fail(_FAILED, DEMO_DISABLED)
    home = StateFolder(settings.home)
    if home.find_addresses() is None:
        up.run_up(overrides, companion=run_jupyter)
    else:
        run_until_signalled(run_jupyter(home.read_demo_env()))


def _install_missing(*, is_quiet: bool) -> None:
    """Install the missing packages of the notebooks; ask first unless `is_quiet`."""
    requirements = [
        requirement
        for requirement in map(Requirement, metadata.requires(_DISTRIBUTION) or ())
        if requirement.marker is not None and requirement.marker.evaluate({"extra": _EXTRA})
    ]
    missing = [requirement for requirement in requirements if not _is_satisfied(requirement)]
    if not missing:
        return
    names = ", ".join(requirement.name for requirement in missing)
    command = f"pip install 'florin-pay[{_EXTRA}]'"
    if not is_quiet and not sys.stdin.isatty():
        fail(_FAILED, f"missing packages: {names}; run `{command}`, or use --yes to install them")
    if not OperatorPrompt(is_quiet=is_quiet).ask_yes_no(
        f"Notebooks need {names}. Install now?", default=True
    ):
        fail(_FAILED, f"missing packages: {names}; run `{command}`")
    if find_spec("pip") is None:
        fail(_FAILED, f"missing packages: {names}; this environment has no pip to install them")
    needed = [f"{requirement.name}{requirement.specifier}" for requirement in missing]
    installing = [sys.executable, "-m", "pip", "install", "--quiet", *needed]
    if subprocess.run(installing, check=False).returncode:  # noqa: S603  (names of our own)
        fail(_FAILED, f"could not install {names}; run `{command}` to see why")


def _is_satisfied(requirement: Requirement) -> bool:
    try:
        return requirement.specifier.contains(metadata.version(requirement.name), prereleases=True)
    except metadata.PackageNotFoundError:
        return False


def _prepare_folder(folder: Path | None) -> Path:
    """Return the folder to open: that of a checkout, or one with copies of the notebooks.

    Never overwrite a file in the folder: the user may have changed it.
    """
    checkout = _PACKAGE.parents[1] / "notebooks"
    if folder is None and (checkout / _FIRST_NOTEBOOK).exists():
        return checkout
    source = checkout if (checkout / _FIRST_NOTEBOOK).exists() else _PACKAGE / "notebooks"
    folder = folder or Path("florin-notebooks")
    existing_files = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in sorted(source.glob("*.*")):
            if (folder / path.name).exists():
                existing_files.append(path.name)
            else:
                shutil.copyfile(path, folder / path.name)
    except OSError as error:
        fail(_FAILED, error)
    if existing_files:
        print_hint(f"{len(existing_files)} files in {folder} exist already and stay unchanged.")
    return folder


async def _run_jupyter(folder: Path, options: list[str], env: Mapping[str, str]) -> None:
    """Run Jupyter until it ends; _JupyterFailed if its status is not 0."""
    # not asyncio's subprocess: that forks, and gRPC warns about forks
    jupyter = subprocess.Popen(  # noqa: ASYNC220, S603  (starts in an instant; only our own arguments)
        [sys.executable, "-m", "jupyterlab", *options],
        cwd=folder,
        env={**os.environ, **env},
        # keep Ctrl-C from Jupyter: it asks for confirmation, and hangs after a second one
        start_new_session=True,
    )
    try:
        status = await asyncio.to_thread(jupyter.wait)
    finally:
        jupyter.terminate()
        await asyncio.to_thread(_wait_until_ended, jupyter)
    if status:
        raise _JupyterFailed(f"Jupyter ended with status {status}")


def _wait_until_ended(process: subprocess.Popen[bytes]) -> None:
    """Wait until a process has ended; kill it after a timeout."""
    try:
        process.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
