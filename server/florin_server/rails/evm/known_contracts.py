"""Third-party contracts that have the same address on every chain."""

from __future__ import annotations

from typing import Final

# deploys contracts at addresses that follow from their code (CREATE2)
DEPLOYER: Final = "0x4e59b44847b379578588920ca78fbf26c0b4956c"
