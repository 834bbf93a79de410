"""Golden answers: their comparison, and the values masked in them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.support.service_harness import DEPLOYED, SPEC

GOLDEN = Path(__file__).parents[1] / "wire" / "golden"
PROFILES = {"spec": SPEC, "no header": {}, "deployed": DEPLOYED}


def mask_hashes(text: str) -> str:
    """Return a text with placeholders for hashes; signatures are longer, and stay."""
    return re.sub(r"0x[0-9a-f]{64}(?![0-9a-f])", "<hash>", text)


def compare_golden(name: str, seen: Any, *, update: bool) -> None:
    file = GOLDEN / name
    if update:
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(seen, indent=1, ensure_ascii=False) + "\n")
    assert seen == json.loads(file.read_text())
