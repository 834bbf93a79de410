"""Data about buyers, and the form that it is handed in with."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.desk import PAY_URL, Answer, Desk

DATA = {
    "fullName": "Ada Marker-one",
    "dob": "1987-06-05",
    "pobCountry": "DE",
    "pobAddress": "Köln Marker-two",
    "tosConfirmed": True,
}
FORM = {**DATA, "tosConfirmed": "true", "porCountry": "", "porAddress": ""}


def items(data: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"id": name, "value": value} for name, value in data.items()]


def path_of(url: str) -> str:
    """A form's path with its query; it is on the payment host."""
    assert url.startswith(f"{PAY_URL}/collect/?")
    return url.removeprefix(PAY_URL)


def query_of(url: str) -> dict[str, str]:
    return {name: value for name, (value,) in parse_qs(urlsplit(url).query).items()}


async def hand_in(desk: Desk, url: str, data: Any = DATA, **headers: str) -> Answer:
    """What a program does with a form's address."""
    body = {"token": query_of(url)["t"], "data": data}
    return await desk.ask("POST", "/collect/", headers, body)
