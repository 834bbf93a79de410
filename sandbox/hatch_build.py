"""Include the notebooks in built distributions: they are next to the sandbox, not in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Notebooks(BuildHookInterface[Any]):
    """A build hook that adds the notebooks, which `florin lab` opens where no checkout is."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """List the folder; an editable install finds it in the repository."""
        if version == "editable":
            return
        root = Path(self.root)
        # inside an sdist; beside the sandbox in a checkout
        inside = root / "notebooks"
        notebooks = inside if inside.is_dir() else root.parent / "notebooks"
        target = "notebooks" if self.target_name == "sdist" else "florin_sandbox/notebooks"
        build_data["force_include"][str(notebooks)] = target
