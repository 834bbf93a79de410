"""Every setting, its default and its reason; read from florin.toml and FLORIN_* variables."""

from florin_server.settings.app_links import AndroidApp, AppLinkSettings
from florin_server.settings.archive import ArchiveSettings
from florin_server.settings.capture import CaptureSettings
from florin_server.settings.checkout import CheckoutSettings, WalletLink
from florin_server.settings.database import DatabaseSettings
from florin_server.settings.embedded import EmbeddedChainSettings, EmbeddedSolanaSettings
from florin_server.settings.event_sink import EventSinkSettings
from florin_server.settings.limits import (
    FailedFeeSettings,
    FailedGasSettings,
    LimitSettings,
    RefundCreditSettings,
)
from florin_server.settings.settings import Settings
from florin_server.settings.tracing import TracingSettings
from florin_server.settings.webhooks import WebhookSettings
from florin_server.settings.x402 import (
    FacilitatedFeeSettings,
    FacilitatedGasSettings,
    X402Settings,
)

__all__ = [
    "AndroidApp",
    "AppLinkSettings",
    "ArchiveSettings",
    "CaptureSettings",
    "CheckoutSettings",
    "DatabaseSettings",
    "EmbeddedChainSettings",
    "EmbeddedSolanaSettings",
    "EventSinkSettings",
    "FacilitatedFeeSettings",
    "FacilitatedGasSettings",
    "FailedFeeSettings",
    "FailedGasSettings",
    "LimitSettings",
    "RefundCreditSettings",
    "Settings",
    "TracingSettings",
    "WalletLink",
    "WebhookSettings",
    "X402Settings",
]
