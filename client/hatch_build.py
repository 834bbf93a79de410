"""Include the protos in built distributions: they are next to the client, not in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGES = ("florin",)
# protos that protoc needs in addition; a wheel's dependencies provide them
IMPORTED = ("gateway_options", "google")


class Protos(BuildHookInterface[Any]):
    """A build hook that adds the protos.

    A wheel has each proto beside its generated code, an sdist has all protos in `protos`.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """List the files; an editable install finds them in the repository."""
        if version == "editable":
            return
        root = Path(self.root)
        # inside an sdist; beside the client in a checkout
        inside = root / "protos"
        protos = inside if inside.is_dir() else root.parent / "protos"
        below = "protos/" if self.target_name == "sdist" else ""
        for package in (*PACKAGES, *(IMPORTED if self.target_name == "sdist" else ())):
            for file in sorted((protos / package).rglob("*.proto")):
                build_data["force_include"][str(file)] = below + str(file.relative_to(protos))
