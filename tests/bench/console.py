"""Measure the console's table of payments against the API answer that it shows."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from http.client import HTTPConnection
from statistics import median
from urllib.parse import urlencode, urlsplit

from tests.bench.florin import Florin
from tests.bench.report import Figure
from tests.bench.setup import new_payments
from tests.bench.size import sized
from tests.support.console import ENTRY, OWN

ROWS, ROUNDS = 50, sized(200, 2)


def measure(florin: Florin, pool: ProcessPoolExecutor) -> list[Figure]:
    """Return the median of whole pages, one after the other, in turn with the API."""
    new_payments(florin, pool, ROWS)
    connection = HTTPConnection(*florin.http)
    try:
        signed = _signed_in(connection, florin.env["FLORIN_PARTNER_KEY"])
        page_ms, api_ms = [], []
        for _ in range(ROUNDS):
            page_ms.append(_ms(connection, "/console/payments", signed))
            api_ms.append(_ms(connection, "/v1/payments", florin.merchant))
    finally:
        connection.close()
    page, api = median(page_ms), median(api_ms)
    note = f"{ROWS} rows, with the merchants to choose from; the API's answer takes {api:.1f} ms"
    return [Figure("console_added_ms", page - api, "ms", note)]


def _signed_in(connection: HTTPConnection, key: str) -> Mapping[str, str]:
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    body = urlencode({"secret": key, "back": "/console"})
    entry = {"Host": f"{ENTRY}:{connection.port}"}
    connection.request("POST", "/console/login", body, {**OWN, **kind, **entry})
    answer = connection.getresponse()
    answer.read()
    led = urlsplit(answer.headers.get("Location", ""))
    own = {"Host": led.netloc}
    connection.request("GET", f"{led.path}?{led.query}", headers=own)
    answer = connection.getresponse()
    answer.read()
    cookie = re.match("[^;]+", answer.headers.get("Set-Cookie", ""))
    if cookie is None:
        raise RuntimeError(f"the sign-in failed: {answer.status}")
    return {**own, "Cookie": cookie[0]}


def _ms(connection: HTTPConnection, path: str, headers: Mapping[str, str]) -> float:
    started = time.perf_counter()
    connection.request("GET", path, headers=dict(headers))
    answer = connection.getresponse()
    answer.read()
    if answer.status != 200:
        raise RuntimeError(f"{path} was answered {answer.status}")
    return (time.perf_counter() - started) * 1000
