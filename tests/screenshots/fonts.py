"""A browser that draws alike on every machine, whatever fonts that one has.

Chromium brings its own means to draw; fonts and how they are smoothed it asks Fontconfig for. Here
that knows those of two packages of Python only: the DejaVu fonts of matplotlib, which are those of
Debian without others, and one with Japanese letters.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path

from playwright.async_api import Browser

from tests.support.browser import launched

_FAMILIES = {
    "DejaVu Sans": ("sans", "sans-serif"),
    "DejaVu Sans Mono": ("monospace",),
}
_SMOOTHED = {"antialias": "true", "hinting": "false", "autohint": "false"}
_OPTIONS = (
    *("--font-render-hinting=none", "--disable-lcd-text", "--disable-gpu"),
    # the same letter looks alike wherever it stands: files are smaller
    "--disable-font-subpixel-positioning",
    *("--force-color-profile=srgb", "--force-device-scale-factor=1", "--hide-scrollbars"),
)


@asynccontextmanager
async def alike(folder: Path) -> AsyncIterator[Browser]:
    """A browser that draws alike everywhere; the folder gets what Fontconfig wants."""
    file = folder / "fonts.conf"
    file.write_text(_told(folder))
    async with launched(*_OPTIONS, variables={"FONTCONFIG_FILE": str(file)}) as browser:
        yield browser


def _told(folder: Path) -> str:
    folders = (
        _package("matplotlib") / "mpl-data/fonts/ttf",
        _package("matplotlib_fontja") / "fonts",
    )
    fonts = "".join(f"<dir>{one}</dir>" for one in folders)
    others = "".join(
        f"<alias binding='strong'><family>{name}</family><prefer><family>{family}</family></prefer>"
        "</alias>"
        for family, names in _FAMILIES.items()
        for name in names
    )
    edits = "".join(
        f"<edit name='{name}' mode='assign'><bool>{value}</bool></edit>"
        for name, value in _SMOOTHED.items()
    )
    wanted = (
        "<selectfont>"
        "<rejectfont><glob>*</glob></rejectfont><acceptfont><glob>*/DejaVuSans*</glob></acceptfont>"
        "<acceptfont><glob>*/ipaexg.ttf</glob></acceptfont></selectfont>"
    )
    return (
        "<?xml version='1.0'?><!DOCTYPE fontconfig SYSTEM 'fonts.dtd'><fontconfig>"
        f"{fonts}<cachedir>{folder}</cachedir>{wanted}{others}"
        # whatever else is asked for, such as what the system uses itself
        "<match target='pattern'><edit name='family' mode='append_last'>"
        "<string>DejaVu Sans</string></edit></match>"
        f"<match target='font'>{edits}<edit name='rgba' mode='assign'><const>none</const></edit>"
        "</match></fontconfig>"
    )


def _package(name: str) -> Path:
    """The folder of a package, which is not imported: that would take a second."""
    found = find_spec(name)
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent
