"""Pandas as a kernel imports it: it does not shorten tables to the width of a terminal.

Pandas chooses this when it is imported, which for kernels in forks is before the kernel exists.
"""

import builtins
from types import SimpleNamespace

import pytest

with pytest.MonkeyPatch.context() as patch:
    patch.setattr(
        builtins, "get_ipython", lambda: SimpleNamespace(kernel=None, config={}), raising=False
    )
    import pandas as pd

assert pd.get_option("display.max_columns"), "pandas was imported before, for a terminal"
