"""Nothing that callers rely on changes unnoticed.

After a change that is meant, `python -m tools.public_contract --update` writes the record again,
and its difference belongs to the change.
"""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from tools import public_contract
from tools.public_contract import ANSWERS, RECORD, differences, record, text_of

KEPT = json.loads(RECORD.read_text())
PAYMENT = "florin.v1.GetPaymentStatusResponse"


def test_the_contract_is_what_it_was():
    assert differences(KEPT, record()) == []


def test_the_record_is_written_as_the_tool_writes_it():
    assert RECORD.read_text() == text_of(record())


def test_the_services_of_callers_are_in_the_record_and_the_operators_are_not():
    services = {name.rpartition(".")[0].rpartition(".")[2] for name in KEPT["rpcs"]}
    assert services == {"GatewayService", "MerchantService", "AdminService", "WebhookService"}
    assert "florin.v1.AdminService.CreateMerchant" in KEPT["rpcs"]
    # what callers never see
    assert "florin.v1.AdminService.CreatePartner" not in KEPT["rpcs"]
    assert not {"florin.v1.Partner", "florin.v1.Payout", "florin.v1.ApiKey"} & set(KEPT["messages"])
    # what they are told inside of answers, and in texts
    assert {"florin.v1.AmountDisplay", "florin.v1.Refund"} <= set(KEPT["messages"])
    assert {"florin.v1.ErrorCode", "florin.v1.PaymentStatus"} <= set(KEPT["enums"])
    assert {"post /v1/payments", "schemas/Error", "document"} <= set(KEPT["openapi"])
    assert set(KEPT["answers"]) == {file.name for file in ANSWERS.iterdir()}


@pytest.mark.parametrize(
    ("section", "name", "member", "value"),
    [
        ("rpcs", "florin.v1.GatewayService.GetPayment", "[google.api.http]", {"get": "/v2"}),
        ("rpcs", "florin.v1.GatewayService.GetPayment", "access", {}),
        ("rpcs", "florin.v1.GatewayService.WatchPayment", "tells", PAYMENT),
        ("messages", f"{PAYMENT}.status", "number", 15),
        ("messages", f"{PAYMENT}.status", "type", "string"),
        ("messages", f"{PAYMENT}.status", "repeated", True),
        ("enums", "florin.v1.PaymentStatus.PAYMENT_STATUS_FAILED", "number", 15),
    ],
)
def test_a_changed_part_is_named(section: str, name: str, member: str, value: Any):
    changed = copy.deepcopy(KEPT)
    changed[section][name][member] = value
    (told,) = differences(KEPT, changed)
    assert told.startswith(f"{section}: {name} was ")


def test_what_went_and_what_came_is_named():
    changed = copy.deepcopy(KEPT)
    del changed["answers"]["created.json"]
    changed["rpcs"]["florin.v1.GatewayService.Guess"] = {}
    assert differences(KEPT, changed) == [
        "answers: created.json is gone",
        "rpcs: florin.v1.GatewayService.Guess is new",
    ]


def test_another_document_is_noticed_in_whole_and_by_its_part(tmp_path, monkeypatch):
    text = public_contract.DOCUMENT.read_text()
    document = tmp_path / "openapi.json"
    monkeypatch.setattr(public_contract, "DOCUMENT", document)
    document.write_text(text + "\n")
    assert [told.partition(" was ")[0] for told in differences(KEPT, record())] == [
        "openapi: document"
    ]
    changed = json.loads(text)
    changed["paths"]["/v1/payments"]["post"]["summary"] = "Something else"
    document.write_text(json.dumps(changed, indent=1, ensure_ascii=False) + "\n")
    assert [told.partition(" was ")[0] for told in differences(KEPT, record())] == [
        "openapi: document",
        "openapi: post /v1/payments",
    ]
