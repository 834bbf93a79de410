"""What `florin doctor` says of what others see: the certificate, and where payment links lead."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime

from florin_server.boot.home import Home, Refused
from florin_server.boot.servers import public_address
from florin_server.boot.servers.certificates import WARN_DAYS, Files
from florin_server.config import Settings
from florin_server.domain.conditions import ConditionName

Finding = tuple[str, str]  # what was looked at, what is wrong with it ("" if nothing)


async def findings(settings: Settings, home: Home) -> AsyncIterator[Finding]:
    """One for each of them that is set, or has to be."""
    for finding in _certificate(settings):
        yield finding
    links = settings.pay_url.rstrip("/")
    runs = home.addresses()
    if settings.has_live:
        told = links or (runs or {}).get("http") or f"http://{settings.host}"
        if problem := public_address.problem(told):
            yield f"installation: {ConditionName.PAY_URL_LOCAL}", f"{problem}: set FLORIN_PAY_URL"
    if links:
        # whoever else serves them, somebody has to where money is real
        problem = await public_address.unreachable(links) if settings.has_live else ""
        yield f"payment links begin with {links}", problem


def notes(settings: Settings) -> Iterator[str]:
    """What is no fault, and may not be meant."""
    alone = settings.tls_certificate is None and not settings.trusted_proxies
    if settings.has_live and alone:
        yield (
            "no trusted_proxies: whoever calls through a proxy in front counts as one address "
            "with all others"
        )


def _certificate(settings: Settings) -> Iterator[Finding]:
    try:
        if (files := Files.of(settings)) is None:
            return
        pair = files.read()
    except Refused as error:
        yield "certificate", str(error)
        return
    now = datetime.now(UTC)
    days = pair.days(now)
    subject = (
        f"certificate of {', '.join(pair.names)}: {days} days left, "
        f"until {pair.until:%Y-%m-%d %H:%M} UTC"
    )
    too_few = "" if days >= WARN_DAYS else "it should have been renewed"
    yield subject, pair.problem(now) or too_few
