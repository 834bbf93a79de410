"""Kernels of notebooks in forks of one process, which has loaded what notebooks import."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.provisioning import local_provisioner

from tests.support.command import CommandForks, ForkedCommand

_MODULES = (
    *("tests.support.pandas_of_kernels", "ipykernel.kernelapp", "ipykernel.ipkernel", "jupytext"),
    *("matplotlib.pyplot", "pyarrow.parquet", "florin_client.aio"),
    *("florin_sandbox.devnet.evm", "florin_sandbox.devnet.solana"),
    *("florin_sandbox.simulation.run", "florin_sandbox.demo_accounts"),
)
# as kernels set it: matplotlib reads it when it is imported
_BACKEND = {"MPLBACKEND": "module://matplotlib_inline.backend_inline"}
_MOMENT_S = 0.001


@contextmanager
def open_kernel_forks(folder: Path) -> Iterator[None]:
    """Start all kernels of this process in forks."""
    with (
        CommandForks.open_forks(folder, *_MODULES, **_BACKEND) as forks,
        pytest.MonkeyPatch.context() as patch,
    ):

        def launch(command: list[str], *, env: dict[str, str], cwd: str, **_: Any) -> ForkedCommand:
            module, *arguments = command[command.index("-m") + 1 :]
            kernel = forks.module(module, *arguments, cwd=Path(cwd), session=True, **env)
            # signals are sent to its group, which is that of these tests until it has its own
            while os.getpgid(kernel.pid) != kernel.pid:
                time.sleep(_MOMENT_S)
            return kernel

        patch.setattr(local_provisioner, "launch_kernel", launch)
        yield
