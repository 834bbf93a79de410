"""One example of the body of each type of event."""

from __future__ import annotations

from typing import Any

from florin_server.domain.webhooks.endpoint import BODY_FORMAT, EVENT_TYPES
from florin_server.web.openapi.examples import MERCHANT_ID, PAYMENT_ID, REFUND_ID, TX_HASH

JsonObject = dict[str, Any]

_ASSET = "caip19/eip155:8453/erc20:0x833589fcd6edb6e08f4c7c32d4f71b54bda02913"
_CREATED_AT = "2027-01-15T08:00:00.000Z"
_PROCESSING_AT = "2027-01-15T08:00:02.000Z"
_FINAL_AT = "2027-01-15T08:00:04.120Z"
_EXPIRES_AT = "2027-01-15T08:15:00.000Z"
_PROCESSING: JsonObject = {
    "processing_at": _PROCESSING_AT,
    "option_amount": {"unit": _ASSET, "value": "12500000"},
    "fee": None,
    "settlement_amount": {"unit": _ASSET, "value": "12500000"},
    "buyer_caip10": "eip155:8453:0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266",
    "chain_caip2": "eip155:8453",
}
_SUCCESS: JsonObject = {"succeeded_at": _FINAL_AT, "tx_id": TX_HASH}
_SETTLED: JsonObject = {
    "settled_at": _FINAL_AT,
    "tx_id": TX_HASH,
    "amount": {"unit": _ASSET, "value": "12500000"},
}
_PAID: JsonObject = {
    "status": "succeeded",
    "processing": _PROCESSING,
    "success": _SUCCESS,
    "settled": _SETTLED,
}
# members of the snapshot by the last part of a payment event's type
_STAGES: dict[str, JsonObject] = {
    "created": {"status": "requires_action"},
    "processing": {"status": "processing", "processing": _PROCESSING},
    "succeeded": {**_PAID, "settled": None},
    "settled": _PAID,
    "failed": {"processing": _PROCESSING, "failed": {"failed_at": _FINAL_AT}},
    "expired": {"expired": {"expired_at": _EXPIRES_AT}},
    "cancelled": {"cancelled": {"cancelled_at": _FINAL_AT}},
    "deposit_seen": {"status": "requires_action"},
    "deposit_returned": _PAID,
    "deposit_claimed": _PAID,
}
_ADDRESS = "eip155:8453:0x5b38da6a701c568545dcfcb03fcb875f56beddc4"
_SENDER = "eip155:8453:0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266"
_DEPOSITS: dict[str, JsonObject] = {
    "deposit_seen": {
        "tx_id": TX_HASH,
        "sender_caip10": _SENDER,
        "address_caip10": _ADDRESS,
        "amount": {"unit": _ASSET, "value": "4000000"},
        "is_final": False,
        "received": {"unit": _ASSET, "value": "4000000"},
        "missing": {"unit": _ASSET, "value": "8500000"},
        "over": {"unit": _ASSET, "value": "0"},
        "returned_to_caip10": None,
        "payout_id": None,
        "claim_id": None,
    },
    "deposit_returned": {
        "tx_id": TX_HASH,
        "sender_caip10": _SENDER,
        "address_caip10": _ADDRESS,
        "amount": {"unit": _ASSET, "value": "1000000"},
        "is_final": True,
        "received": None,
        "missing": None,
        "over": None,
        "returned_to_caip10": _SENDER,
        "payout_id": "pout_7Gh2Kq9Lw4Rt",
        "claim_id": None,
    },
    "deposit_claimed": {
        "tx_id": None,
        "sender_caip10": None,
        "address_caip10": _ADDRESS,
        "amount": {"unit": _ASSET, "value": "1000000"},
        "is_final": True,
        "received": None,
        "missing": None,
        "over": None,
        "returned_to_caip10": None,
        "payout_id": None,
        "claim_id": "clm_5Rt8Wq2Lx9Kp",
    },
}
_REASONS = {"failed": "failure_reason", "cancelled": "cancellation_reason"}
_VERSIONS = {
    "created": 0,
    "expired": 1,
    "cancelled": 1,
    "processing": 1,
    "settled": 3,
    "deposit_seen": 1,
    "deposit_returned": 4,
    "deposit_claimed": 4,
}
_TIMES = {
    "created": _CREATED_AT,
    "processing": _PROCESSING_AT,
    "expired": _EXPIRES_AT,
    "deposit_seen": _PROCESSING_AT,
}


def make_webhook_example(event_type: str) -> JsonObject:
    """Return a body of an event; raise KeyError if the type is unknown."""
    subject, _, stage = event_type.rpartition(".")
    is_refund = subject == "refund"
    members = _PAID if is_refund else _STAGES[stage]
    data: JsonObject = {
        "payment_id": PAYMENT_ID,
        "merchant_id": MERCHANT_ID,
        "live": True,
        "payment_state_version": 4 if is_refund else _VERSIONS.get(stage, 2),
        "reference_id": "order-1001",
        "status": stage,
        "is_final": is_refund or stage not in {"created", "processing", "deposit_seen"},
        "amount": {"unit": "iso4217/USD", "value": "1250"},
        "created_at": _CREATED_AT,
        "expires_at": _EXPIRES_AT,
        "processing": None,
        "success": None,
        "failed": None,
        "cancelled": None,
        "expired": None,
        "settled": None,
        "refunds": [_make_refund(stage)] if is_refund else [],
        **members,
    }
    if stage in _DEPOSITS:
        data["deposit"] = _DEPOSITS[stage]
    if stage in _REASONS and not is_refund:
        data[stage] = {**data[stage], _REASONS[stage]: None}
    return {
        "id": f"evt_2sJ7Hk4QdLw9{EVENT_TYPES.index(event_type):02}",
        "type": event_type,
        "api_version": BODY_FORMAT,
        "created_at": _TIMES.get(stage, _FINAL_AT),
        "data": data,
    }


def _make_refund(status: str) -> JsonObject:
    is_final = status in {"succeeded", "failed"}
    return {
        "refund_id": REFUND_ID,
        "status": status,
        "amount": {"unit": _ASSET, "value": "5000000"},
        "tx_id": TX_HASH if status in {"processing", "succeeded"} else None,
        "created_at": _FINAL_AT,
        "completed_at": _FINAL_AT if is_final else None,
        "reason": None,
    }
