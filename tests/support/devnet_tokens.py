"""Code of tokens that report a transfer falsely or not at all."""

from __future__ import annotations

SILENT_TOKEN = bytes.fromhex("00")  # accepts everything, returns nothing
FALSE_TOKEN = bytes.fromhex("5f5f5260205ff3")  # accepts everything, returns false
