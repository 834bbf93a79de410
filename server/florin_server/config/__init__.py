"""Every setting, its default and its reason; read from florin.toml and FLORIN_* variables."""

from florin_server.config.app_links import AndroidApp, AppLinkSettings
from florin_server.config.capture import CaptureSettings
from florin_server.config.checkout import CheckoutSettings, WalletLink
from florin_server.config.database import DatabaseSettings
from florin_server.config.embedded import EmbeddedChainSettings, EmbeddedSolanaSettings
from florin_server.config.limits import (
    FailedFeeSettings,
    FailedGasSettings,
    LimitSettings,
    RefundCreditSettings,
)
from florin_server.config.settings import Settings
from florin_server.config.tracing import TracingSettings
from florin_server.config.webhooks import WebhookSettings

__all__ = [
    "AndroidApp",
    "AppLinkSettings",
    "CaptureSettings",
    "CheckoutSettings",
    "DatabaseSettings",
    "EmbeddedChainSettings",
    "EmbeddedSolanaSettings",
    "FailedFeeSettings",
    "FailedGasSettings",
    "LimitSettings",
    "RefundCreditSettings",
    "Settings",
    "TracingSettings",
    "WalletLink",
    "WebhookSettings",
]
