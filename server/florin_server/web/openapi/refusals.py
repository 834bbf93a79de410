"""The error codes of each RPC, by HTTP status."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from florin.v1 import access_pb2
from google.protobuf.descriptor import MethodDescriptor

from florin_server.domain.errors import ERROR_SPECS, ErrorCode

RefusalCodes = dict[int, set[ErrorCode]]

# codes for callers of the deployed profile only
DEPLOYED_ONLY = frozenset(
    (
        ErrorCode.NOT_FOUND,
        ErrorCode.MISSING_IDEMPOTENCY_KEY,
        ErrorCode.SETTLEMENT_ASSET_CONFLICT,
        ErrorCode.VERSION_CONFLICT,
        ErrorCode.BAD_GATEWAY,
    )
)
# transport errors: timeout, body too large, wrong media type, too many headers
TRANSPORT = (408, 413, 415, 431)

_GATEWAY = access_pb2.CALLER_FAMILY_GATEWAY
_PAYMENTS = access_pb2.CALLER_FAMILY_PAYMENTS
_ACCOUNT = access_pb2.CALLER_FAMILY_ACCOUNT
_SANDBOX = access_pb2.CALLER_FAMILY_SANDBOX

_COMMON_CODES = (
    ErrorCode.INVALID_PARAMS,
    ErrorCode.HEADER_NOT_ASCII,
    ErrorCode.CONFLICTING_AUTH_HEADERS,
    ErrorCode.MISSING_AUTH_HEADERS,
    ErrorCode.INVALID_API_KEY,
    ErrorCode.FORBIDDEN,
    ErrorCode.INVALID_API_VERSION,
    ErrorCode.UNKNOWN_API_VERSION,
    ErrorCode.API_VERSION_DOWNGRADE,
    ErrorCode.RATE_LIMITED,
    ErrorCode.INTERNAL_ERROR,
)
_MERCHANT_SIDE = (ErrorCode.MISSING_API_KEY, ErrorCode.MISSING_MERCHANT_API_KEY)
_FAMILY_CODES: Mapping[int, tuple[ErrorCode, ...]] = {
    _GATEWAY: (ErrorCode.MISSING_APP_ID, ErrorCode.MISSING_CLIENT_ID, ErrorCode.INVALID_APP_ID),
    _PAYMENTS: (*_MERCHANT_SIDE, ErrorCode.MISSING_MERCHANT_ID, ErrorCode.MERCHANT_NOT_FOUND),
    _ACCOUNT: _MERCHANT_SIDE,
    _SANDBOX: (*_MERCHANT_SIDE, ErrorCode.NOT_SANDBOX_API_KEY),
}
_MERCHANT_IN_PATH = (ErrorCode.MERCHANT_NOT_FOUND, ErrorCode.NOT_FOUND)
_KEY_REQUIRED = frozenset(
    (access_pb2.IDEMPOTENCY_RULE_REQUIRED, access_pb2.IDEMPOTENCY_RULE_PERMANENT)
)
_METHOD_CODES: Mapping[str, tuple[ErrorCode, ...]] = {
    "GatewayService.GetPayment": (ErrorCode.PAYMENT_NOT_FOUND,),
    "GatewayService.GetPaymentOptions": (
        ErrorCode.PAYMENT_NOT_FOUND,
        ErrorCode.PAYMENT_EXPIRED,
        ErrorCode.SANCTIONED_USER,
    ),
    "GatewayService.OpenAddresses": (
        ErrorCode.INVALID_STATE,
        ErrorCode.PAYMENT_NOT_FOUND,
        ErrorCode.PAYMENT_EXPIRED,
        ErrorCode.SANCTIONED_USER,
    ),
    "GatewayService.ClaimDeposit": (
        ErrorCode.INVALID_STATE,
        ErrorCode.PAYMENT_NOT_FOUND,
        ErrorCode.SANCTIONED_USER,
    ),
    "GatewayService.FetchAction": (
        ErrorCode.INVALID_STATE,
        ErrorCode.PAYMENT_NOT_FOUND,
        ErrorCode.QUOTE_EXPIRED,
        ErrorCode.PAYMENT_EXPIRED,
    ),
    "GatewayService.ConfirmPayment": (
        ErrorCode.INVALID_STATE,
        ErrorCode.PAYMENT_NOT_FOUND,
        ErrorCode.QUOTE_EXPIRED,
        ErrorCode.PAYMENT_EXPIRED,
    ),
    "GatewayService.GetPaymentStatus": (ErrorCode.PAYMENT_NOT_FOUND,),
    "GatewayService.CancelPayment": (ErrorCode.INVALID_STATE, ErrorCode.PAYMENT_NOT_FOUND),
    "GatewayService.WatchPayment": (ErrorCode.PAYMENT_NOT_FOUND,),
    "MerchantService.CreatePayment": (),
    "MerchantService.GetPayment": (ErrorCode.PAYMENT_NOT_FOUND,),
    "MerchantService.GetReceipt": (
        ErrorCode.PAYMENT_NOT_FOUND,
        ErrorCode.PAYMENT_NOT_SUCCEEDED,
        ErrorCode.INVALID_STATE,
    ),
    "MerchantService.ListPaymentEvents": (ErrorCode.PAYMENT_NOT_FOUND,),
    "MerchantService.GetPaymentStatus": (ErrorCode.PAYMENT_NOT_FOUND,),
    "MerchantService.WatchPayment": (ErrorCode.PAYMENT_NOT_FOUND,),
    "MerchantService.CancelPayment": (ErrorCode.INVALID_STATE, ErrorCode.PAYMENT_NOT_FOUND),
    "MerchantService.ListPayments": (),
    "MerchantService.ListMerchantPayments": (),
    "MerchantService.ListPaymentsLegacy": _MERCHANT_IN_PATH,
    "MerchantService.CreateRefund": (
        ErrorCode.PAYMENT_NOT_FOUND,
        ErrorCode.NOT_FOUND,
        ErrorCode.PAYMENT_NOT_SUCCEEDED,
        ErrorCode.ALREADY_REFUNDED,
    ),
    "MerchantService.ListDepositClaims": (ErrorCode.PAYMENT_NOT_FOUND,),
    "MerchantService.ConfirmDepositClaim": (
        ErrorCode.PAYMENT_NOT_FOUND,
        ErrorCode.NOT_FOUND,
        ErrorCode.INVALID_STATE,
        ErrorCode.SANCTIONED_USER,
    ),
    "MerchantService.RejectDepositClaim": (
        ErrorCode.PAYMENT_NOT_FOUND,
        ErrorCode.NOT_FOUND,
        ErrorCode.INVALID_STATE,
    ),
    "AdminService.CreateMerchant": (),
    "AdminService.ListMerchants": (),
    "AdminService.GetMerchant": _MERCHANT_IN_PATH,
    "AdminService.UpdateMerchant": (*_MERCHANT_IN_PATH, ErrorCode.VERSION_CONFLICT),
    "AdminService.DeleteMerchant": _MERCHANT_IN_PATH,
    "AdminService.ListSettlements": _MERCHANT_IN_PATH,
    "AdminService.CreateCryptoSettlements": (
        *_MERCHANT_IN_PATH,
        ErrorCode.SETTLEMENT_ASSET_CONFLICT,
    ),
    "AdminService.UpdateCryptoSettlement": (*_MERCHANT_IN_PATH, ErrorCode.VERSION_CONFLICT),
    "AdminService.DeleteCryptoSettlement": _MERCHANT_IN_PATH,
    "AdminService.SimulatePayment": (ErrorCode.PAYMENT_NOT_FOUND, ErrorCode.INVALID_STATE),
    "AdminService.GetTestClock": (),
    "AdminService.AdvanceTestClock": (ErrorCode.INVALID_STATE,),
    "AdminService.ListAuditEntries": (),
    "AdminService.CreatePaymentNote": (ErrorCode.PAYMENT_NOT_FOUND, ErrorCode.INVALID_STATE),
    "AdminService.ListPaymentNotes": (ErrorCode.PAYMENT_NOT_FOUND,),
    "AdminService.UpdatePaymentNote": (ErrorCode.PAYMENT_NOT_FOUND,),
    "WebhookService.CreateWebhookEndpoint": (
        ErrorCode.MERCHANT_NOT_FOUND,
        ErrorCode.INVALID_STATE,
        ErrorCode.PARAMS_VALIDATION,
    ),
    "WebhookService.ListWebhookEndpoints": (),
    "WebhookService.GetWebhookEndpoint": (),
    "WebhookService.UpdateWebhookEndpoint": (ErrorCode.INVALID_STATE,),
    "WebhookService.DeleteWebhookEndpoint": (),
    "WebhookService.RotateWebhookSecret": (),
    "WebhookService.ListWebhookAttempts": (),
    "WebhookService.ReplayWebhook": (ErrorCode.PAYMENT_NOT_FOUND,),
    "WebhookService.ReplayWebhooksSince": (ErrorCode.INVALID_STATE,),
    "WebhookService.TakeWebhooks": (ErrorCode.INVALID_STATE,),
}
# for an endpoint in the path
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
_UNIQUE_URL_METHODS = frozenset(
    ("WebhookService.CreateWebhookEndpoint", "WebhookService.UpdateWebhookEndpoint")
)
# a missing settlement, which has no code of its own
_SETTLEMENT_IN_PATH = frozenset(
    ("AdminService.UpdateCryptoSettlement", "AdminService.DeleteCryptoSettlement")
)

# an unknown note or claim, which has no code of its own
_OBJECT_IN_PATH = frozenset(
    (
        "AdminService.UpdatePaymentNote",
        "MerchantService.ConfirmDepositClaim",
        "MerchantService.RejectDepositClaim",
    )
)


def list_refusals(method: MethodDescriptor, *, has_body: bool) -> RefusalCodes:
    """Return the codes of an RPC by HTTP status; raise LookupError if this table lacks the RPC."""
    rule: access_pb2.AccessRule = method.GetOptions().Extensions[access_pb2.access]
    name = f"{method.containing_service.name}.{method.name}"
    codes = [*_COMMON_CODES, *_FAMILY_CODES[rule.family], *_METHOD_CODES[name]]
    if has_body:
        codes.append(ErrorCode.PARAMS_VALIDATION)
    if rule.idempotency:
        codes.append(ErrorCode.IDEMPOTENCY_CONFLICT)
    if rule.idempotency in _KEY_REQUIRED:
        codes.append(ErrorCode.MISSING_IDEMPOTENCY_KEY)
    if rule.outage == access_pb2.OUTAGE_RULE_BAD_GATEWAY:
        codes.append(ErrorCode.BAD_GATEWAY)
    codes_by_status = _group_by_status(codes)
    for status in TRANSPORT:
        codes_by_status.setdefault(status, set()).add(ErrorCode.INVALID_PARAMS)
    codes_by_status.setdefault(503, set()).add(ErrorCode.INTERNAL_ERROR)
    if {ErrorCode.VERSION_CONFLICT, ErrorCode.SETTLEMENT_ASSET_CONFLICT} & set(codes):
        # code of the other profile
        codes_by_status[409].add(
            ErrorCode.INVALID_STATE,
        )
    if name in _ENDPOINT_IN_PATH:
        codes_by_status.setdefault(404, set()).add(ErrorCode.INVALID_PARAMS)
    if name in _OBJECT_IN_PATH:
        codes_by_status[404].add(ErrorCode.INVALID_PARAMS)
    if name in _UNIQUE_URL_METHODS:
        # the URL belongs to another endpoint
        codes_by_status.setdefault(409, set()).add(
            ErrorCode.INVALID_STATE,
        )
    if name in _SETTLEMENT_IN_PATH:
        codes_by_status[404].add(ErrorCode.INVALID_PARAMS)
    return codes_by_status


def _group_by_status(codes: Iterable[ErrorCode]) -> RefusalCodes:
    codes_by_status: RefusalCodes = {}
    for code in codes:
        codes_by_status.setdefault(ERROR_SPECS[code].http_status, set()).add(code)
    return codes_by_status
