"""Which codes each RPC can refuse a call with, at which HTTP status."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from florin.v1 import access_pb2
from google.protobuf.descriptor import MethodDescriptor

from florin_server.domain.errors import REGISTRY, Code

Refusals = dict[int, set[Code]]

# told to callers of the deployed profile only
DEPLOYED_ONLY = frozenset(
    (
        Code.NOT_FOUND,
        Code.MISSING_IDEMPOTENCY_KEY,
        Code.SETTLEMENT_ASSET_CONFLICT,
        Code.VERSION_CONFLICT,
        Code.BAD_GATEWAY,
    )
)
# faults of the transport: late, too long, of another media type, too many headers
TRANSPORT = (408, 413, 415, 431)

_GATEWAY = access_pb2.CALLER_FAMILY_GATEWAY
_PAYMENTS = access_pb2.CALLER_FAMILY_PAYMENTS
_ACCOUNT = access_pb2.CALLER_FAMILY_ACCOUNT
_SANDBOX = access_pb2.CALLER_FAMILY_SANDBOX

_COMMON = (
    Code.INVALID_PARAMS,
    Code.HEADER_NOT_ASCII,
    Code.CONFLICTING_AUTH_HEADERS,
    Code.MISSING_AUTH_HEADERS,
    Code.INVALID_API_KEY,
    Code.FORBIDDEN,
    Code.INVALID_API_VERSION,
    Code.UNKNOWN_API_VERSION,
    Code.API_VERSION_DOWNGRADE,
    Code.RATE_LIMITED,
    Code.INTERNAL_ERROR,
)
_MERCHANT_SIDE = (Code.MISSING_API_KEY, Code.MISSING_MERCHANT_API_KEY)
_FAMILY: Mapping[int, tuple[Code, ...]] = {
    _GATEWAY: (Code.MISSING_APP_ID, Code.MISSING_CLIENT_ID, Code.INVALID_APP_ID),
    _PAYMENTS: (*_MERCHANT_SIDE, Code.MISSING_MERCHANT_ID, Code.MERCHANT_NOT_FOUND),
    _ACCOUNT: _MERCHANT_SIDE,
    _SANDBOX: (*_MERCHANT_SIDE, Code.NOT_SANDBOX_API_KEY),
}
_MERCHANT_IN_PATH = (Code.MERCHANT_NOT_FOUND, Code.NOT_FOUND)
_KEY_REQUIRED = frozenset(
    (access_pb2.IDEMPOTENCY_RULE_REQUIRED, access_pb2.IDEMPOTENCY_RULE_PERMANENT)
)
_OWN: Mapping[str, tuple[Code, ...]] = {
    "GatewayService.GetPayment": (Code.PAYMENT_NOT_FOUND,),
    "GatewayService.GetPaymentOptions": (
        Code.PAYMENT_NOT_FOUND,
        Code.PAYMENT_EXPIRED,
        Code.SANCTIONED_USER,
    ),
    "GatewayService.FetchAction": (
        Code.INVALID_STATE,
        Code.PAYMENT_NOT_FOUND,
        Code.QUOTE_EXPIRED,
        Code.PAYMENT_EXPIRED,
    ),
    "GatewayService.ConfirmPayment": (
        Code.INVALID_STATE,
        Code.PAYMENT_NOT_FOUND,
        Code.QUOTE_EXPIRED,
        Code.PAYMENT_EXPIRED,
    ),
    "GatewayService.GetPaymentStatus": (Code.PAYMENT_NOT_FOUND,),
    "GatewayService.CancelPayment": (Code.INVALID_STATE, Code.PAYMENT_NOT_FOUND),
    "GatewayService.WatchPayment": (Code.PAYMENT_NOT_FOUND,),
    "MerchantService.CreatePayment": (),
    "MerchantService.GetPayment": (Code.PAYMENT_NOT_FOUND,),
    "MerchantService.GetReceipt": (
        Code.PAYMENT_NOT_FOUND,
        Code.PAYMENT_NOT_SUCCEEDED,
        Code.INVALID_STATE,
    ),
    "MerchantService.ListPaymentEvents": (Code.PAYMENT_NOT_FOUND,),
    "MerchantService.GetPaymentStatus": (Code.PAYMENT_NOT_FOUND,),
    "MerchantService.WatchPayment": (Code.PAYMENT_NOT_FOUND,),
    "MerchantService.CancelPayment": (Code.INVALID_STATE, Code.PAYMENT_NOT_FOUND),
    "MerchantService.ListPayments": (),
    "MerchantService.ListMerchantPayments": (),
    "MerchantService.ListPaymentsLegacy": _MERCHANT_IN_PATH,
    "MerchantService.CreateRefund": (
        Code.PAYMENT_NOT_FOUND,
        Code.NOT_FOUND,
        Code.PAYMENT_NOT_SUCCEEDED,
        Code.ALREADY_REFUNDED,
    ),
    "AdminService.CreateMerchant": (),
    "AdminService.ListMerchants": (),
    "AdminService.GetMerchant": _MERCHANT_IN_PATH,
    "AdminService.UpdateMerchant": (*_MERCHANT_IN_PATH, Code.VERSION_CONFLICT),
    "AdminService.DeleteMerchant": _MERCHANT_IN_PATH,
    "AdminService.ListSettlements": _MERCHANT_IN_PATH,
    "AdminService.CreateCryptoSettlements": (*_MERCHANT_IN_PATH, Code.SETTLEMENT_ASSET_CONFLICT),
    "AdminService.UpdateCryptoSettlement": (*_MERCHANT_IN_PATH, Code.VERSION_CONFLICT),
    "AdminService.DeleteCryptoSettlement": _MERCHANT_IN_PATH,
    "AdminService.SimulatePayment": (Code.PAYMENT_NOT_FOUND, Code.INVALID_STATE),
    "AdminService.GetTestClock": (),
    "AdminService.AdvanceTestClock": (Code.INVALID_STATE,),
    "WebhookService.CreateWebhookEndpoint": (
        Code.MERCHANT_NOT_FOUND,
        Code.INVALID_STATE,
        Code.PARAMS_VALIDATION,
    ),
    "WebhookService.ListWebhookEndpoints": (),
    "WebhookService.GetWebhookEndpoint": (),
    "WebhookService.UpdateWebhookEndpoint": (Code.INVALID_STATE,),
    "WebhookService.DeleteWebhookEndpoint": (),
    "WebhookService.RotateWebhookSecret": (),
    "WebhookService.ListWebhookAttempts": (),
    "WebhookService.ReplayWebhook": (Code.PAYMENT_NOT_FOUND,),
    "WebhookService.ReplayWebhooksSince": (Code.INVALID_STATE,),
    "WebhookService.TakeWebhooks": (Code.INVALID_STATE,),
}
# the same of an endpoint
_ENDPOINT_IN_PATH = frozenset(
    f"WebhookService.{name}"
    for name in (
        "GetWebhookEndpoint",
        "UpdateWebhookEndpoint",
        "DeleteWebhookEndpoint",
        "RotateWebhookSecret",
        "ListWebhookAttempts",
        "ReplayWebhook",
        "ReplayWebhooksSince",
        "TakeWebhooks",
    )
)
_TAKEN = frozenset(("WebhookService.CreateWebhookEndpoint", "WebhookService.UpdateWebhookEndpoint"))
# a settlement that is not there, told without a code of its own
_SETTLEMENT_IN_PATH = frozenset(
    ("AdminService.UpdateCryptoSettlement", "AdminService.DeleteCryptoSettlement")
)


def refusals_of(method: MethodDescriptor, *, has_body: bool) -> Refusals:
    """The codes of an RPC by HTTP status; LookupError if this table does not know the RPC."""
    rule: access_pb2.AccessRule = method.GetOptions().Extensions[access_pb2.access]
    name = f"{method.containing_service.name}.{method.name}"
    codes = [*_COMMON, *_FAMILY[rule.family], *_OWN[name]]
    if has_body:
        codes.append(Code.PARAMS_VALIDATION)
    if rule.idempotency:
        codes.append(Code.IDEMPOTENCY_CONFLICT)
    if rule.idempotency in _KEY_REQUIRED:
        codes.append(Code.MISSING_IDEMPOTENCY_KEY)
    if rule.outage == access_pb2.OUTAGE_RULE_BAD_GATEWAY:
        codes.append(Code.BAD_GATEWAY)
    found = _by_status(codes)
    for status in TRANSPORT:
        found.setdefault(status, set()).add(Code.INVALID_PARAMS)
    found.setdefault(503, set()).add(Code.INTERNAL_ERROR)
    if {Code.VERSION_CONFLICT, Code.SETTLEMENT_ASSET_CONFLICT} & set(codes):
        # what the other profile tells instead
        found[409].add(
            Code.INVALID_STATE,
        )
    if name in _ENDPOINT_IN_PATH:
        found.setdefault(404, set()).add(Code.INVALID_PARAMS)
    if name in _TAKEN:
        # another endpoint has the URL
        found.setdefault(409, set()).add(
            Code.INVALID_STATE,
        )
    if name in _SETTLEMENT_IN_PATH:
        found[404].add(Code.INVALID_PARAMS)
    return found


def _by_status(codes: Iterable[Code]) -> Refusals:
    found: Refusals = {}
    for code in codes:
        found.setdefault(REGISTRY[code].http, set()).add(code)
    return found
