"""The JSON dialects."""

from __future__ import annotations

from enum import StrEnum


class JsonProfile(StrEnum):
    """JSON form of messages.

    Spec and deployed differ only in text fields that contain JSON; canonical is proto3 JSON.
    """

    SPEC = "spec"
    DEPLOYED = "deployed"
    CANONICAL = "canonical"
