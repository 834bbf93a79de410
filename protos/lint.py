"""Lints the protos and compares them with the last release, without any network.

buf reads a descriptor image, so that it needs neither its registry nor a copy of google's protos.
"""

from __future__ import annotations

import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
CONFIG = HERE / "buf.yaml"
# the image of the last released protos; changed only by a release, with `--release`
RELEASED = HERE / "released.binpb"


def buf(*args: str) -> int:
    """Runs buf and gives its exit status."""
    program = pathlib.Path(sys.executable).with_name("buf")
    return subprocess.run([str(program), *args, "--config", str(CONFIG)], check=False).returncode  # noqa: S603


def main() -> None:
    """Lints and compares; with `--release` the protos of today become what is compared with."""
    with tempfile.TemporaryDirectory() as tmp:
        image = pathlib.Path(tmp) / "image.binpb"
        generate = [sys.executable, str(HERE / "generate.py"), "--image"]
        subprocess.run([*generate, str(image)], check=True)  # noqa: S603
        if sys.argv[1:] == ["--release"]:
            RELEASED.write_bytes(image.read_bytes())
            return
        failed = buf("lint", str(image))
        failed |= buf("breaking", str(image), "--against", str(RELEASED), "--exclude-imports")
    raise SystemExit(failed)


if __name__ == "__main__":
    main()
