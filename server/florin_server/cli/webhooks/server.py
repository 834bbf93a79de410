"""Which Florin `florin listen` and `florin trigger` ask, and as whom."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from florin_client import AsyncClient

from florin_server.boot.home import Home, Refused
from florin_server.boot.servers.upstream import Link
from florin_server.cli.console import fail, settings_of

KEY, MERCHANT, TARGET = "FLORIN_PARTNER_KEY", "FLORIN_MERCHANT_ID", "FLORIN_GRPC_TARGET"


@dataclass(frozen=True, slots=True)
class Server:
    """A Florin and a merchant's credentials for it."""

    target: str
    key: str
    merchant_id: str
    link: Link

    def client(self) -> AsyncClient:
        """A client of it; made within a running loop."""
        return AsyncClient(
            self.target,
            api_key=self.key,
            merchant_id=self.merchant_id,
            plaintext=not self.link.encrypts,
            root_certificates=None if self.link.ca is None else self.link.ca.read_bytes(),
        )


def server(given: dict[str, Any], target: str | None, *, tls: bool, ca: Path | None) -> Server:
    """What is asked: the test account of the Florin here, or who is named in the environment.

    Ends the program if nobody is.
    """
    env = dict(os.environ)
    if target is None and KEY not in env:
        home = Home(settings_of(given).home)
        if home.addresses() is None:
            fail("Not done", f"no Florin runs with its state in {home.path}; start one: florin up")
        env |= home.read_demo_env()
    found = target or env.get(TARGET, "")
    for name in (KEY, MERCHANT):
        if not env.get(name):
            fail("Not done", f"set {KEY} and {MERCHANT} in the environment: {name} is missing")
    if not found:
        fail("Not done", f"say which Florin: --server host:port, or {TARGET} in the environment")
    link = Link(tls=tls, ca=ca)
    try:
        link.check(found)
    except Refused as error:
        fail("Not done", error)
    return Server(found, env[KEY], env[MERCHANT], link)
