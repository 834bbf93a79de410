"""Tables of payments for the analyses: from simulated days, or from a Florin in the environment.

docs/reference/data.md describes every table and column. Amounts in minor units are exact Python
integers, times are UTC.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

from florin_client import VERSION
from target import LabError, address, is_here, missing

try:
    import pandas as pd
    import pyarrow as pa
except ModuleNotFoundError as error:
    raise missing(error) from None

# first day of the default simulated week; fixed, so that charts stay equal
FIRST_DAY = date(2026, 10, 5)
# parameters of most analyses
WEEK = {"seed": 7, "payments": 400, "days": 7}
# most folders of simulated days to keep, the newest ones
_KEPT = 8
# coins of chains without a name of their own
_COINS = {"slip44:60": "test ETH", "slip44:501": "test SOL"}
_INTEGERS = {pa.int64(): pd.Int64Dtype()}
# logs of the simulated service are no news in a notebook
for name in ("florin_server", "florin_sandbox"):
    logging.getLogger(name).addHandler(logging.NullHandler())


@dataclass(frozen=True)
class Data:
    """Tables by name, a description of their source, and the state folder if there is one.

    `find_asset` returns the names of an asset (CAIP-19), as the statements of a month have them.
    """

    tables: Mapping[str, pd.DataFrame]
    source: str
    find_asset: Callable[[str], Any]
    home: Path | None = None

    def get_symbol(self, asset: str) -> str:
        """Return a short name of an asset (CAIP-19, or a unit): symbol and network."""
        text = asset.removeprefix("caip19/")
        if text.startswith("iso4217/"):
            return text.removeprefix("iso4217/")
        named = self.find_asset(text)
        if named.symbol == text or not named.network:
            chain, _, name = text.partition("/")
            return f"{name.partition(':')[0]} …{text[-4:]} on {chain[:16]}"
        symbol = _COINS.get(text.rpartition("/")[2], "coin")
        symbol = symbol if named.symbol == "coin" else named.symbol
        return f"{symbol}, {named.network}"

    def __getitem__(self, name: str) -> pd.DataFrame:
        return self.tables[name]


def load(
    *names: str,
    home: str = "",
    seed: int = 7,
    payments: int = 400,
    days: int = 7,
    **config: Any,
) -> Data:
    """Return the tables with these names.

    They come from the state folder `home` if it is given. If FLORIN_TARGET is set, they come from
    that Florin: its state folder, which has every table, or its gRPC address, which has the
    payments and refunds of a merchant. Otherwise they come from simulated days, which are stored in
    the user's cache folder for later use. `config` are further options of the simulation. Raise
    LabError with the remedy if that is impossible.
    """
    target = home or os.environ.get("FLORIN_TARGET", "")
    if target and not Path(target).is_dir():
        return _of_server(target, names)
    folder = Path(target) if target else simulated(seed, payments, days, **config)
    source = f"state in {folder}" if target else f"{payments:,} simulated payments, seed {seed}"
    return Data(_of_home(folder, names), source, _asset_finder(folder), folder)


def simulated(seed: int, payments: int, days: int, **config: Any) -> Path:
    """Return the state folder after simulated days; the first run takes a while."""
    # imported here: tables of a remote Florin need no server
    from florin_sandbox.simulation import config as choices
    from florin_sandbox.simulation.run import simulate
    from florin_server.settings import Settings

    try:
        chosen = choices.SimulationConfig(seed=seed, payments=payments, days=days, **config)
    except (choices.InvalidSimulationConfig, TypeError) as error:
        raise LabError(f"this cannot be simulated: {error}") from error
    cache_key = json.dumps([VERSION, _code(), str(FIRST_DAY), asdict(chosen)], sort_keys=True)
    folder = _cache() / hashlib.sha256(cache_key.encode()).hexdigest()[:16]
    with _locked(folder):
        if not (folder / "done").exists():
            shutil.rmtree(folder / "home", ignore_errors=True)
            problems: list[str] = []
            show = _progress(chosen.payments)

            def work() -> None:
                # a notebook's own loop runs in this thread already
                settings = Settings(home=folder / "home")
                report = simulate(settings, chosen, lambda now: show(now.done), first_day=FIRST_DAY)
                problems.extend(report.problems)

            _in_thread(work)
            if problems:
                raise LabError(f"the simulated days do not add up: {'; '.join(problems)}")
        # its modification time is the time of the last use
        (folder / "done").touch()
    _forget()
    return folder / "home"


def _code() -> str:
    """Return a digest of the simulating code: days of other code are not reused."""
    import florin_sandbox
    import florin_server

    roots = [Path(package.__file__).parent for package in (florin_server, florin_sandbox)]
    paths = [(root, path) for root in roots for path in sorted(root.rglob("*.py"))]
    files = ((str(path.relative_to(root.parent)), path.stat()) for root, path in paths)
    fingerprints = [(name, stat.st_size, stat.st_mtime_ns) for name, stat in files]
    return hashlib.sha256(repr(fingerprints).encode()).hexdigest()


def _progress(total: int) -> Callable[[int], None]:
    """Draw a progress bar where it can be redrawn: in a notebook, or on a terminal."""
    if "ipykernel" in sys.modules:
        from IPython.display import ProgressBar

        bar = ProgressBar(total)
        bar.display()
        return lambda done: setattr(bar, "progress", done)
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    drawn = Progress(console=console, disable=not console.is_terminal)
    task = drawn.add_task("Payments", total=total)

    def show(done: int) -> None:
        drawn.start()
        drawn.update(task, completed=done)
        if done == total:
            drawn.stop()

    return show


def _in_thread(work: Callable[[], None]) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()


def _asset_finder(home: Path | None) -> Callable[[str], Any]:
    from florin_server.app.exports.assets import build_asset_finder
    from florin_server.settings import Settings

    return build_asset_finder(Settings() if home is None else Settings(home=home))


def _of_home(home: Path, names: tuple[str, ...]) -> dict[str, pd.DataFrame]:
    from florin_server.app.exports.store import open_store_origin
    from florin_server.app.home import SetupError
    from florin_server.domain.exports.error import ExportError
    from florin_server.settings import Settings

    try:
        with open_store_origin(Settings(home=home)) as origin:
            return {name: _frame(origin, name) for name in names}
    except (ExportError, SetupError) as error:
        raise LabError(str(error)) from error


def _of_server(target: str, names: tuple[str, ...]) -> Data:
    from florin_server.app.exports.server import open_server_origin
    from florin_server.app.home import SetupError
    from florin_server.app.servers.upstream import UpstreamConnection
    from florin_server.domain.exports.error import ExportError

    try:
        with open_server_origin(
            address(target), UpstreamConnection(tls=not is_here(target)), os.environ
        ) as origin:
            if missing := set(names) - {*origin.tables}:
                raise LabError(
                    f"merchants cannot read {', '.join(sorted(missing))} from a server: this "
                    "analysis needs the operator's state folder as FLORIN_TARGET"
                )
            tables = {name: _frame(origin, name) for name in names}
    except (ExportError, SetupError) as error:
        raise LabError(str(error)) from error
    source = f"merchant {os.environ['FLORIN_MERCHANT_ID']} at {target}"
    return Data(tables, source, _asset_finder(None))


def _frame(origin: Any, name: str) -> pd.DataFrame:
    from florin_server.features.exports.service import frames

    frame = frames.read_origin(origin, name).to_pandas(types_mapper=_INTEGERS.get)
    for column in frame.columns[frame.columns.str.endswith("_minor")]:
        # 256 bits fit in no pandas number; Python integers are exact
        exact = [None if pd.isna(text) else int(text) for text in frame[column]]
        frame[column] = pd.Series(exact, index=frame.index, dtype=object)
    return frame.drop(columns="part")


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "florin-lab"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock a folder, so that two notebooks with equal days simulate them once."""
    folder.mkdir(mode=0o700, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _forget() -> None:
    """Delete the days that were not used for the longest time."""
    done = sorted(_cache().glob("*/done"), key=lambda path: path.stat().st_mtime)
    for path in done[:-_KEPT]:
        shutil.rmtree(path.parent, ignore_errors=True)
