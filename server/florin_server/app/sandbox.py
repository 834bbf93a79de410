"""The sandbox: embedded chains, test accounts and their commands, a distribution of its own.

`florin-sandbox` depends on this package, and this package never imports it by name: a production
installation lacks it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from florin_server.app.home import InstallationSecrets, SetupError, StateFolder
from florin_server.settings import Settings

# every command looks for the sandbox: it must not load the service
if TYPE_CHECKING:
    from florin_server.app.core import App
    from florin_server.app.servers.grpc_server import GrpcServers
    from florin_server.base.clock import Clock
    from florin_server.rails.protocol import Rail

_PACKAGE: Final = "florin_sandbox"
_ENTRY: Final = f"{_PACKAGE}.entry"
NOT_INSTALLED: Final = (
    "the sandbox is not installed: install florin-sandbox, or add a chain with `florin chain add`"
)


@dataclass(frozen=True, slots=True)
class RunningEmbeddedChain:
    """A running embedded chain: its address for others, and its connection for this process."""

    handle: Callable[[bytes], Awaitable[bytes]]
    rpc_url: str
    add_listener: Callable[[Callable[[], None]], object]  # to new heads
    is_busy: Callable[[], bool]  # it executes something, or finalizes it


@dataclass(frozen=True, slots=True)
class EmbeddedChains:
    """The embedded chains that run, each None if it is off, and their rails."""

    evm: RunningEmbeddedChain | None = None
    solana: RunningEmbeddedChain | None = None
    rails: Sequence[Rail] = ()


class SandboxService(Protocol):
    """A running service, as far as its test accounts need it."""

    home: StateFolder
    secrets: InstallationSecrets
    app: App
    grpc: GrpcServers
    http_url: str
    evm_chain: RunningEmbeddedChain | None
    solana_chain: RunningEmbeddedChain | None


class Sandbox(Protocol):
    """The sandbox, as `SANDBOX` of florin_sandbox.entry; commands end the program if they fail."""

    async def start_chains(
        self,
        settings: Settings,
        home: StateFolder,
        installation_secrets: InstallationSecrets,
        clock: Clock,
        stack: AsyncExitStack,
    ) -> EmbeddedChains:
        """Start the embedded chains of the settings; their rails are not started."""

    async def ensure_demo_accounts(self, service: SandboxService) -> str | None:
        """Create test accounts in an empty store; return a link of a first payment, if created."""

    async def find_armed_faults(self, settings: Settings) -> list[tuple[str, str, str]] | None:
        """Return chain, kind and details of each armed fault; None if no embedded chain runs."""

    def list_faults(self, overrides: dict[str, Any]) -> None:
        """Run `florin faults list`."""

    def clear_faults(self, overrides: dict[str, Any], kind: str | None) -> None:
        """Run `florin faults clear`."""

    def run_demo(self, overrides: dict[str, Any], *, starts: bool) -> None:
        """Run `florin demo`; with `starts`, start Florin first unless it runs."""

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

    def run_simulation(
        self,
        overrides: dict[str, Any],
        options: dict[str, Any],
        *,
        begin: datetime | None,
        as_json: bool,
    ) -> None:
        """Run `florin simulate`."""


def find_sandbox() -> Sandbox | None:
    """Return the sandbox, or None if it is not installed."""
    if find_spec(_PACKAGE) is None:
        return None
    sandbox: Sandbox = import_module(_ENTRY).SANDBOX
    return sandbox


def require_sandbox() -> Sandbox:
    """Return the sandbox; SetupError with what to do if it is not installed."""
    sandbox = find_sandbox()
    if sandbox is None:
        raise SetupError(NOT_INSTALLED)
    return sandbox


def without_missing_sandbox(settings: Settings) -> Settings:
    """Return the settings with embedded chains off, if nothing asks for them and none can run.

    They are on by default beside chains with test money. Without a sandbox, those chains are all.
    """
    has_chains = bool(settings.chains or settings.solana_chains)
    if settings.demo is None and has_chains and find_spec(_PACKAGE) is None:
        return settings.model_copy(update={"demo": False})
    return settings
