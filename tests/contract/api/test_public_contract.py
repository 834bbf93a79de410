"""Test that nothing in the public contract changes unnoticed.

After an intended change, run `python -m tools.public_contract --update` and commit the record with
the change.
"""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from tools import public_contract
from tools.public_contract import (
    GOLDEN_FOLDER,
    RECORD_FILE,
    build_record,
    format_record,
    list_differences,
)

KEPT = json.loads(RECORD_FILE.read_text())
PAYMENT = "florin.v1.GetPaymentStatusResponse"


def test_public_contract_matches_its_record():
    assert list_differences(KEPT, build_record()) == []


def test_the_record_is_written_as_the_tool_writes_it():
    assert RECORD_FILE.read_text() == format_record(build_record())


def test_the_services_of_callers_are_in_the_record_and_the_operators_are_not():
    services = {name.rpartition(".")[0].rpartition(".")[2] for name in KEPT["rpcs"]}
    assert services == {"GatewayService", "MerchantService", "AdminService", "WebhookService"}
    assert "florin.v1.AdminService.CreateMerchant" in KEPT["rpcs"]
    # callers never see these
    assert "florin.v1.AdminService.CreatePartner" not in KEPT["rpcs"]
    assert not {"florin.v1.Partner", "florin.v1.Payout", "florin.v1.ApiKey"} & set(KEPT["messages"])
    # these reach callers inside answers and texts
    assert {"florin.v1.AmountDisplay", "florin.v1.Refund"} <= set(KEPT["messages"])
    assert {"florin.v1.ErrorCode", "florin.v1.PaymentStatus"} <= set(KEPT["enums"])
    assert {"post /v1/payments", "schemas/Error", "document"} <= set(KEPT["openapi"])
    assert set(KEPT["answers"]) == {file.name for file in GOLDEN_FOLDER.iterdir()}


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
    (output,) = list_differences(KEPT, changed)
    assert output.startswith(f"{section}: {name} was ")


def test_removed_and_new_contract_parts_are_reported_by_name():
    changed = copy.deepcopy(KEPT)
    del changed["answers"]["created.json"]
    changed["rpcs"]["florin.v1.GatewayService.Guess"] = {}
    assert list_differences(KEPT, changed) == [
        "answers: created.json is gone",
        "rpcs: florin.v1.GatewayService.Guess is new",
    ]


def test_another_document_is_noticed_in_whole_and_by_its_part(tmp_path, monkeypatch):
    text = public_contract.DOCUMENT_PATH.read_text()
    document = tmp_path / "openapi.json"
    monkeypatch.setattr(public_contract, "DOCUMENT_PATH", document)
    document.write_text(text + "\n")
    assert [
        difference.partition(" was ")[0] for difference in list_differences(KEPT, build_record())
    ] == ["openapi: document"]
    changed = json.loads(text)
    changed["paths"]["/v1/payments"]["post"]["summary"] = "Something else"
    document.write_text(json.dumps(changed, indent=1, ensure_ascii=False) + "\n")
    assert [
        difference.partition(" was ")[0] for difference in list_differences(KEPT, build_record())
    ] == [
        "openapi: document",
        "openapi: post /v1/payments",
    ]
