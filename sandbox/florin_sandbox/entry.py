"""The entry through which the server finds the sandbox.

Importing it is cheap: each method imports what it needs when it is called.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from florin_server.app.home import InstallationSecrets, StateFolder
from florin_server.app.sandbox import EmbeddedChains, Sandbox, SandboxService
from florin_server.settings import Settings

if TYPE_CHECKING:
    from florin_server.base.clock import Clock


class InstalledSandbox:
    """Implement the Sandbox protocol."""

    async def start_chains(
        self,
        settings: Settings,
        home: StateFolder,
        installation_secrets: InstallationSecrets,
        clock: Clock,
        stack: AsyncExitStack,
    ) -> EmbeddedChains:
        """Start the embedded chains of the settings; their rails are not started."""
        from florin_sandbox.chains.start import start_chains

        return await start_chains(settings, home, installation_secrets, clock, stack)

    async def ensure_demo_accounts(self, service: SandboxService) -> str | None:
        """Create test accounts in an empty store; return a link of a first payment, if created."""
        from florin_sandbox.demo_accounts import ensure_demo_accounts

        return await ensure_demo_accounts(service)

    async def find_armed_faults(self, settings: Settings) -> list[tuple[str, str, str]] | None:
        """Return chain, kind and details of each armed fault; None if no embedded chain runs."""
        from florin_sandbox.commands.faults import find_armed_faults

        return await find_armed_faults(settings)

    def list_faults(self, overrides: dict[str, Any]) -> None:
        """Run `florin faults list`."""
        from florin_sandbox.commands.faults import list_faults

        list_faults(overrides)

    def clear_faults(self, overrides: dict[str, Any], kind: str | None) -> None:
        """Run `florin faults clear`."""
        from florin_sandbox.commands.faults import clear_faults

        clear_faults(overrides, kind)

    def run_demo(self, overrides: dict[str, Any], *, starts: bool) -> None:
        """Run `florin demo`; with `starts`, start Florin first unless it runs."""
        from florin_sandbox.commands import demo

        # use a service that already runs
        if starts and not demo.is_service_running(overrides):
            from florin_server.cli.service.up import run_up

            run_up(overrides, before_ready=demo.run_payment)
        else:
            demo.run_demo(overrides)

    def run_lab(
        self,
        overrides: dict[str, Any],
        folder: Path | None,
        port: int | None,
        *,
        opens_browser: bool,
        yes: bool,
    ) -> None:
        """Run `florin lab`."""
        from florin_sandbox.commands.lab import run_lab

        run_lab(overrides, folder, port, opens_browser=opens_browser, yes=yes)

    def run_simulation(
        self,
        overrides: dict[str, Any],
        options: dict[str, Any],
        *,
        begin: datetime | None,
        as_json: bool,
    ) -> None:
        """Run `florin simulate`."""
        from florin_sandbox.commands.simulate import run_simulation

        run_simulation(overrides, options, begin=begin, as_json=as_json)


SANDBOX: Final[Sandbox] = InstalledSandbox()
