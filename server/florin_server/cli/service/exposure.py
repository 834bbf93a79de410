"""The checks of `florin doctor` from the outside: the certificate and the payment links."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime

from florin_server.app.home import SetupError, StateFolder
from florin_server.app.servers import public_address
from florin_server.app.servers.certificates import WARN_DAYS, CertificateFiles
from florin_server.domain.conditions import ConditionName
from florin_server.settings import Settings

DoctorFinding = tuple[str, str]  # subject, problem ("" if none)


async def check_exposure(settings: Settings, home: StateFolder) -> AsyncIterator[DoctorFinding]:
    """Check the certificate and the payment links; yield a finding for each that is set."""
    for finding in _check_certificate(settings):
        yield finding
    links = settings.pay_url.rstrip("/")
    runs = home.find_addresses()
    if settings.has_live:
        base_url = links or (runs or {}).get("http") or f"http://{settings.host}"
        if problem := public_address.find_link_problem(base_url):
            yield f"installation: {ConditionName.PAY_URL_LOCAL}", f"{problem}: set FLORIN_PAY_URL"
    if links:
        # another host can serve them, but with real money they have to be reachable
        problem = await public_address.check_reachable(links) if settings.has_live else ""
        yield f"payment links begin with {links}", problem


def list_notes(settings: Settings) -> Iterator[str]:
    """Yield notes on settings that are valid but possibly not intended."""
    alone = settings.tls_certificate is None and not settings.trusted_proxies
    if settings.has_live and alone:
        yield (
            "trusted_proxies is not set: all callers behind a proxy count as one address; set "
            "FLORIN_TRUSTED_PROXIES if there is a proxy"
        )


def _check_certificate(settings: Settings) -> Iterator[DoctorFinding]:
    try:
        if (files := CertificateFiles.from_settings(settings)) is None:
            return
        pair = files.read()
    except SetupError as error:
        yield "certificate", str(error)
        return
    now = datetime.now(UTC)
    days = pair.count_days_left(now)
    subject = (
        f"certificate of {', '.join(pair.names)}: {days} days left, "
        f"until {pair.valid_until:%Y-%m-%d %H:%M} UTC"
    )
    too_few = "" if days >= WARN_DAYS else "renew it now"
    yield subject, pair.find_problem(now) or too_few
