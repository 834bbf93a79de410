"""Puts the protos into what is built: they lie beside the client, not in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGES = ("florin", "gateway_options")
# what protoc needs beside them, which a wheel's dependencies bring
IMPORTED = ("google",)


class Protos(BuildHookInterface[Any]):
    """A wheel has each proto beside its generated code, an sdist all of them in `protos`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Names the files; an editable install has them in the repository."""
        if version == "editable":
            return
        root = Path(self.root)
        # an sdist has them, a checkout has them next door
        inside = root / "protos"
        protos = inside if inside.is_dir() else root.parent / "protos"
        below = "protos/" if self.target_name == "sdist" else ""
        for package in (*PACKAGES, *(IMPORTED if self.target_name == "sdist" else ())):
            for file in sorted((protos / package).rglob("*.proto")):
                build_data["force_include"][str(file)] = below + str(file.relative_to(protos))
