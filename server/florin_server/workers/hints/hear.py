"""Hears what other processes changed, and has this one look at it.

Nothing that is heard is believed: it only says where to look. Of what nobody here watches nothing
is kept, so no stranger can fill this process or make it ask for more than it would anyway.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from florin_server.flows.app import App
from florin_server.store.engine.notices import Notices
from florin_server.store.engine.query import StoreError
from florin_server.workers.hints.paced import Paced
from florin_server.workers.hints.remembered import Remembered
from florin_server.workers.hints.tell import back_off_s

_log = logging.getLogger(__name__)

# who watches waits for no more than this behind a flood, who works may ask nodes each time
_WATCHERS_S, _WORKERS_S = 0.002, 0.05


class Hearing:
    """What one process does with the hints of others."""

    def __init__(self, app: App, notices: Notices, remembered: Remembered) -> None:
        self._app = app
        self._notices = notices
        self._remembered = remembered
        # of what is watched here alone
        self._payments: dict[str, int] = {}
        self._payouts: set[str] = set()
        self._settle: set[str] = set()
        self._pay_out = self._all = False
        self._watchers = Paced(self._tell_watchers, _WATCHERS_S)
        self._followers = Paced(self._tell_followers, _WORKERS_S)
        self._workers = Paced(self._wake_workers, _WORKERS_S)

    def jobs(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return what it does at the same time, by name."""
        return {
            "receive_hints": self._listen,
            "notify_watchers": self._watchers.run,
            "notify_followers": self._followers.run,
            "wake_workers": self._workers.run,
        }

    async def _listen(self) -> None:
        failures = 0
        while True:
            try:
                await self._notices.listen(self._app.clock, self._began, self._heard)
            except StoreError as error:
                failures = 0 if self._app.hints.listening else failures + 1
                if failures <= 1:
                    _log.warning("changes of other processes are found by sweeps: %s", error)
            finally:
                self._app.hints.listening = False
            await self._app.clock.sleep(back_off_s(failures))

    def _began(self) -> None:
        """Looks at everything, as nobody knows what was missed."""
        self._app.hints.listening = self._all = self._pay_out = True
        self._app.webhooks.asked.set()
        self._settle |= self._app.settlers.keys()
        self._payouts |= self._app.payouts.followed
        self._remembered.forget()
        for one in (self._watchers, self._followers, self._workers):
            one.ask()

    def _heard(self, text: str) -> None:
        heard = self._app.hints.hear(text)
        if heard is None:
            return
        if heard.payments:
            self._app.webhooks.asked.set()
        if behind := self._app.hub.behind(heard.payments):
            self._payments |= behind
            self._watchers.ask()
        if followed := heard.payouts & self._app.payouts.followed:
            self._payouts |= followed
            self._followers.ask()
        for chain_id in heard.receivers & self._app.chains.keys():
            self._app.chains[chain_id].has_new_receivers = True
        self._settle |= (heard.settle | heard.receivers) & self._app.settlers.keys()
        self._pay_out |= heard.pay_out
        if self._settle or self._pay_out:
            self._workers.ask()
        if heard.remembered:
            self._remembered.ask()

    async def _tell_watchers(self) -> None:
        everything, self._all = self._all, False
        told, self._payments = self._payments, {}
        if everything:
            await self._app.hub.look()
        else:
            await self._app.hub.read_again(told)

    async def _tell_followers(self) -> None:
        ids, self._payouts = self._payouts, set()
        self._app.payouts.ring(*ids)

    async def _wake_workers(self) -> None:
        chains, self._settle = self._settle, set()
        for chain_id in chains:
            self._app.settlers[chain_id].wake()
        pay_out, self._pay_out = self._pay_out, False
        if pay_out:
            self._app.ask_payouts()
