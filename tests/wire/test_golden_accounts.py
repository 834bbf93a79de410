"""Every answer about merchants and settlements, in both wire profiles, as in `test_golden`.

One sequence of calls runs once in each profile by a partner of its own. Its ids become placeholders
in the order in which they appear, and idempotency keys are the same in every run.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from florin_server.accounts.store import destinations
from florin_server.domain.payments.payment import BankAccount

from tests.support.accounts import CAFE
from tests.support.golden import PROFILES, compare_golden
from tests.support.service_harness import PartnerTenant, ServiceHarness

NEVER = "mrch_00000000000000000"
ETHER = "eip155:1/slip44:60"
DOLLAR = "eip155:8453/erc20:0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
HERE, THERE = "0x" + "11" * 20, "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Scribe:
    """Makes calls and records the answers."""

    def __init__(self, tenant: PartnerTenant, profile: dict[str, str]) -> None:
        self._desk = tenant.service
        self._headers = {"Api-Key": tenant.secret, "Request-Id": "golden", **profile}
        self.answers: list[Any] = []

    async def ask(self, method: str, path: str, body: Any = None, key: str | None = None) -> Any:
        headers = {**self._headers, **({} if key is None else {"Idempotency-Key": key})}
        answer = await self._desk.ask(method, path, headers, body)
        request = {"asked": f"{method} {path}"}
        if body is not None:
            request["sent"] = body
        if "Idempotent-Replayed" in answer.headers:
            request["replayed"] = answer.headers["Idempotent-Replayed"]
        self.answers.append({**request, "status": answer.status, "body": answer.body})
        return answer.body


@pytest.mark.parametrize("profile", PROFILES)
async def test_every_answer_about_merchants(desk, profile, update_golden):
    tenant = await desk.tenant()
    scribe = Scribe(tenant, PROFILES[profile])
    ask, merchants = scribe.ask, "/v1/merchants"
    await tenant.change_merchant(status="suspended", created_at_us=desk.clock.now_us() - 1_234_567)
    created = await ask("POST", merchants, CAFE, key="create")
    await ask("POST", merchants, CAFE, key="create")
    await ask("POST", merchants, {**CAFE, "iconUrl": None}, key="create")
    await ask("POST", merchants, {"merchantName": " ", "iconUrl": "logo"}, key="bad")
    await ask("POST", merchants, {"merchantName": " ", "merchantEmail": "me"}, key="bad")
    text = f"{merchants}/{created['merchant']['id']}"
    await ask("GET", text)
    await ask("GET", merchants)
    page = await ask("GET", f"{merchants}?limit=1")
    await ask("GET", f"{merchants}?limit=1&cursor={page['nextCursor']}")
    await ask("GET", f"{merchants}?limit=2&status=active&cursor={page['nextCursor']}")
    await ask("GET", f"{merchants}?status=suspended")
    await ask("GET", f"{merchants}?search=CAF%C3%89")
    await ask("GET", f"{merchants}?status=unknown")
    await ask("PATCH", text, {"merchantName": "Café Bern", "iconUrl": None})
    await ask("PATCH", text, {})
    await ask("PATCH", text, {"iconUrl": ""})
    await ask("PATCH", text, {"iconUrl": "http://cafe.example/logo.png"})
    await ask("DELETE", text)
    await ask("DELETE", text)
    for path in (text, f"{merchants}/{NEVER}"):
        await ask("GET", path)
        await ask("PATCH", path, {"merchantName": "X"})
    await ask("DELETE", f"{merchants}/{NEVER}")
    _compare(desk, "merchants", profile, scribe, update=update_golden)


@pytest.mark.parametrize("profile", PROFILES)
async def test_every_answer_about_settlements(desk, profile, update_golden):
    tenant = await desk.tenant()
    scribe = Scribe(tenant, PROFILES[profile])
    ask, text = scribe.ask, f"/v1/merchants/{tenant.merchant.id}"
    crypto = f"{text}/settlements/crypto"
    ether = {"asset": ETHER, "destination": f"eip155:1:{HERE}"}
    dollar = {"asset": f"caip19/{DOLLAR}", "destination": f"eip155:8453:{THERE}"}
    await ask("GET", f"{text}/settlements")
    created = await ask("POST", crypto, {"settlements": [ether, dollar]}, key="create")
    await ask("POST", crypto, {"settlements": [ether, dollar]}, key="create")
    await ask("POST", crypto, {"settlements": [dollar]}, key="create")
    await ask("POST", crypto, {"settlements": [ether]}, key="taken")
    await ask("POST", crypto, {"settlements": []}, key="none")
    strange = {"asset": ETHER, "destination": f"eip155:2:{HERE}"}
    swapped = {"asset": ETHER, "destination": f"eip155:1:{THERE.swapcase().replace('X', 'x')}"}
    nowhere = {"asset": ETHER, "destination": "eip155:1:0x" + "0" * 40}
    wrong = [ether, strange, swapped, nowhere, {"asset": "ether", "destination": "me"}]
    await ask("POST", crypto, {"settlements": wrong}, key="wrong")
    bank = BankAccount(
        tenant.merchant.id.replace("mrch", "fiat"), tenant.merchant.id, "pending", "sepa"
    )
    await desk.service.app.store.write(destinations.put_bank_account(bank))
    await ask("GET", f"{text}/settlements")
    await ask("GET", text)
    place = f"{crypto}/{created['settlements'][0]['id']}"
    await ask("PUT", place, {"destination": f"eip155:1:{THERE}"})
    await ask("PUT", place, {"destination": f"eip155:2:{THERE}"})
    await ask("PUT", place, {})
    await ask("DELETE", place)
    await ask("DELETE", place)
    await ask("PUT", place, {"destination": f"eip155:1:{THERE}"})
    await ask("GET", f"/v1/merchants/{NEVER}/settlements")
    await ask("POST", f"/v1/merchants/{NEVER}/settlements/crypto", {"settlements": [ether]}, "x")
    _compare(desk, "settlements", profile, scribe, update=update_golden)


def _compare(
    desk: ServiceHarness, name: str, profile: str, scribe: Scribe, *, update: bool
) -> None:
    text = json.dumps(scribe.answers, ensure_ascii=False)
    names: dict[str, str] = {}

    def placeholder(match: re.Match[str]) -> str:
        kind = {"mrch": "merchant", "crypto": "settlement", "fiat": "bank account"}[match[1]]
        return names.setdefault(match[0], f"<{kind} {len(names) + 1}>")

    text = text.replace(NEVER, "<no merchant>")
    text = re.sub(r"(mrch|crypto|fiat)_[0-9A-Za-z]+", placeholder, text)
    text = re.sub(r'(?<="nextCursor": )"[^"]+"|(?<=cursor=)[^"&]+', _cursor, text)
    file = f"{name}.{'deployed' if profile == 'deployed' else 'spec'}.json"
    compare_golden(file, json.loads(text), update=update)


def _cursor(match: re.Match[str]) -> str:
    return '"<cursor>"' if match[0].startswith('"') else "<cursor>"
