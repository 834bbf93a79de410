"""`florin lab`: the notebooks in Jupyter, with a Florin beside them."""

from __future__ import annotations

import contextlib
import re
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest
from florin_sandbox.commands import lab

from tests.support.command import (
    PATIENCE_S,
    get_refusal,
    get_state_folder,
    run_florin,
    start_command,
)
from tests.support.until import wait_until

pytestmark = pytest.mark.slow

LINK = re.compile(r"http://127\.0\.0\.1:(\d+)/lab\?(token=\w+)")
ARGUMENTS = ("--no-browser", "--port=0")


@contextmanager
def opened(home: Path, *command: str, **changes: str) -> Iterator[tuple[Any, str, str]]:
    """Yield the process, the address of Jupyter's API and its token."""
    process = start_command("lab", *command, *ARGUMENTS, home=home, **changes)
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if match := LINK.search(line):
                yield process, f"http://127.0.0.1:{match[1]}/api", match[2]
                break
        else:
            raise AssertionError("Jupyter never printed its address")
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)


async def test_notebooks_open_on_a_sandbox_that_ends_with_them(tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "lab.py").write_text("# mine")
    home = tmp_path / "home"
    with opened(home, str(folder)) as (process, url, token):
        async with aiohttp.ClientSession() as session:

            async def listed() -> set[str]:
                # it prints its address a moment before it listens
                with contextlib.suppress(aiohttp.ClientConnectorError):
                    async with session.get(f"{url}/contents?{token}") as answer:
                        return {item["name"] for item in (await answer.json())["content"]}
                return set()

            names = await wait_until(listed)
            async with session.get(f"{url}/contents") as answer:
                assert answer.status == 403
        assert {"00_start_here.ipynb", "00_start_here.py", "charts.py", "lab.py"} <= names
        assert (folder / "lab.py").read_text() == "# mine"
        # kernels inherit Jupyter's environment
        (jupyter,) = psutil.Process(process.pid).children()
        demo = get_state_folder(home).read_demo_env()
        expected = {**demo, "FLORIN_HOME": str(home.resolve())}
        assert expected.items() <= jupyter.environ().items()
        async with aiohttp.ClientSession() as session:
            headers = {"Api-Key": demo["FLORIN_PARTNER_KEY"]}
            headers["Merchant-Id"] = demo["FLORIN_MERCHANT_ID"]
            async with session.get(f"{demo['FLORIN_BASE_URL']}/v1/payments", headers=headers) as a:
                assert a.status == 200
    assert process.returncode == 0
    assert not jupyter.is_running()
    assert get_state_folder(home).find_addresses() is None


def test_lab_with_a_target_starts_no_florin_and_reports_the_exit_of_jupyter(tmp_path):
    """Its port is taken."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run_florin(
            *("lab", str(tmp_path / "mine"), "--no-browser", f"--port={taken.getsockname()[1]}"),
            home=tmp_path / "home",
            FLORIN_TARGET="florin.example:443",
        )
    assert done.status == 1
    assert done.out == "The notebooks use the Florin at florin.example:443.\n"
    assert done.err.splitlines()[-1] == "The lab failed: Jupyter ended with status 1"
    assert not (tmp_path / "home").exists()


def test_there_is_no_sandbox_beside_live_chains(tmp_path):
    done = run_florin("lab", str(tmp_path / "mine"), home=tmp_path / "home", FLORIN_DEMO="false")
    assert done.status == 1
    assert get_refusal(done).startswith("The lab failed: embedded chains and test accounts are off")


def test_a_folder_that_cannot_be_is_refused(tmp_path):
    (tmp_path / "taken").write_text("")
    done = run_florin("lab", str(tmp_path / "taken"), home=tmp_path / "home")
    assert done.status == 1
    assert get_refusal(done).startswith("The lab failed: ")
    assert "taken" in get_refusal(done)


@pytest.mark.parametrize("version", [None, "0.1"])
def test_missing_lab_extra_is_reported_with_its_install_command(monkeypatch, capsys, version):
    true = metadata.version

    def read_version(name: str) -> str:
        if name != "jupyterlab":
            return true(name)
        if version is None:
            raise metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(metadata, "version", read_version)
    with pytest.raises(SystemExit) as ended:
        lab.run_lab({}, None, None, opens_browser=False, yes=False)
    assert ended.value.code == 1
    assert capsys.readouterr().err == (
        "The lab failed: missing packages: jupyterlab; run `pip install 'florin-pay[notebooks]'`, "
        "or use --yes to install them\n"
    )


async def test_the_lab_uses_a_florin_that_runs(tmp_path, up):
    with opened(up.home.path, str(tmp_path / "mine")) as (process, _, _):
        (jupyter,) = psutil.Process(process.pid).children()
        assert up.home.read_demo_env().items() <= jupyter.environ().items()
    assert process.returncode == 0
    # it existed before
    assert up.home.find_addresses() is not None
    assert up.process.poll() is None
