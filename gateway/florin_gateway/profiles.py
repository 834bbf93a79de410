"""The JSON dialects."""

from __future__ import annotations

from enum import StrEnum


class Profile(StrEnum):
    """How messages look as JSON.

    Spec and deployed differ in nothing but text fields that hold JSON; canonical is proto3 JSON.
    """

    SPEC = "spec"
    DEPLOYED = "deployed"
    CANONICAL = "canonical"
