"""Has this process forget what it remembers once another one, or a command, has changed it.

Whatever is remembered is counted in the store when it is changed. The counters are read twice a
second, and at once on a hint; only a counter that moved makes anything be read again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from florin_server.flows.app import App
from florin_server.store.hints import generations
from florin_server.store.hints.generations import Kind
from florin_server.store.operator import executors
from florin_server.workers.hints.paced import Paced

_LOOK_S = 0.5
# hints may come faster than this
_PAUSE_S = 0.05


class Remembered:
    """What one process remembers: accounts, screening lists, and which senders are paused."""

    def __init__(self, app: App) -> None:
        self._app = app
        # nothing: what was read at the start may have changed since
        self._known: Mapping[str, int] | None = None
        self._looks = Paced(self.look, _PAUSE_S)
        self._renew: Mapping[Kind, Callable[[], Awaitable[None]]] = {
            Kind.ACCOUNTS: self._accounts,
            Kind.SCREENING: app.screening.reload,
            Kind.EXECUTORS: self._executors,
            Kind.QUARANTINE: self._quarantine,
        }

    def jobs(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return what it does at the same time, by name."""
        return {"read_changes": self._looks.run, "look_for_changes": self._regularly}

    def ask(self) -> None:
        """Has the counters read soon."""
        self._looks.ask()

    def forget(self) -> None:
        """Has everything read again, whatever the counters say."""
        self._known = None
        self._looks.ask()

    async def look(self) -> None:
        """Reads the counters, and then whatever another one was found for."""
        known = self._known
        found = await self._app.store.read(generations.current())
        for kind, renew in self._renew.items():
            if known is None or found.get(kind) != known.get(kind):
                await renew()
        # one that was forgotten meanwhile stays so
        if self._known is known:
            self._known = found

    async def _regularly(self) -> None:
        while True:
            self._looks.ask()
            await self._app.clock.sleep(_LOOK_S)

    async def _accounts(self) -> None:
        self._app.accounts.forget()

    async def _quarantine(self) -> None:
        generation = self._app.quarantine.generation
        await self._app.quarantine.reload()
        if self._app.quarantine.generation != generation:
            # something was given back: whoever works on it looks now
            for settler in self._app.settlers.values():
                settler.wake()
            self._app.ask_payouts()

    async def _executors(self) -> None:
        paused = await self._app.store.read(executors.pauses())
        for account, sender in self._app.executors.items():
            if account in paused and not sender.paused:
                sender.pause()
            elif account not in paused and sender.paused:
                sender.resume()
