"""A browser that renders equally on every machine, whatever its fonts.

Chromium draws with its own means, but asks Fontconfig for fonts and their smoothing. Here
Fontconfig knows only those of two Python packages: matplotlib's DejaVu fonts, which Debian uses
without others, and one with Japanese letters.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path

from playwright.async_api import Browser

from tests.support.browser import launch_browser

_FAMILIES = {
    "DejaVu Sans": ("sans", "sans-serif"),
    "DejaVu Sans Mono": ("monospace",),
}
_SMOOTHED = {"antialias": "true", "hinting": "false", "autohint": "false"}
_OPTIONS = (
    *("--font-render-hinting=none", "--disable-lcd-text", "--disable-gpu"),
    # a letter looks alike at every position: files are smaller
    "--disable-font-subpixel-positioning",
    *("--force-color-profile=srgb", "--force-device-scale-factor=1", "--hide-scrollbars"),
)


@asynccontextmanager
async def alike(folder: Path) -> AsyncIterator[Browser]:
    """Yield a browser that renders equally everywhere; the folder gets Fontconfig's files."""
    file = folder / "fonts.conf"
    file.write_text(_build_configuration(folder))
    async with launch_browser(*_OPTIONS, variables={"FONTCONFIG_FILE": str(file)}) as browser:
        yield browser


def _build_configuration(folder: Path) -> str:
    folders = (
        _package("matplotlib") / "mpl-data/fonts/ttf",
        _package("matplotlib_fontja") / "fonts",
    )
    fonts = "".join(f"<dir>{path}</dir>" for path in folders)
    remaining = "".join(
        f"<alias binding='strong'><family>{name}</family><prefer><family>{family}</family></prefer>"
        "</alias>"
        for family, names in _FAMILIES.items()
        for name in names
    )
    edits = "".join(
        f"<edit name='{name}' mode='assign'><bool>{value}</bool></edit>"
        for name, value in _SMOOTHED.items()
    )
    expected = (
        "<selectfont>"
        "<rejectfont><glob>*</glob></rejectfont><acceptfont><glob>*/DejaVuSans*</glob></acceptfont>"
        "<acceptfont><glob>*/ipaexg.ttf</glob></acceptfont></selectfont>"
    )
    return (
        "<?xml version='1.0'?><!DOCTYPE fontconfig SYSTEM 'fonts.dtd'><fontconfig>"
        f"{fonts}<cachedir>{folder}</cachedir>{expected}{remaining}"
        # other requests, such as the fonts of the system itself
        "<match target='pattern'><edit name='family' mode='append_last'>"
        "<string>DejaVu Sans</string></edit></match>"
        f"<match target='font'>{edits}<edit name='rgba' mode='assign'><const>none</const></edit>"
        "</match></fontconfig>"
    )


def _package(name: str) -> Path:
    """Return the folder of a package without importing it, which would take a second."""
    module_spec = find_spec(name)
    assert module_spec is not None
    assert module_spec.origin is not None
    return Path(module_spec.origin).parent
