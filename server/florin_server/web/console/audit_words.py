"""The actions and objects of the audit log in words."""

from __future__ import annotations

from typing import Final

from florin_server.domain.audit import AuditAction
from florin_server.web.language import Translations

# the parts before the dots of the actions
OBJECTS: Final = tuple(dict.fromkeys(action.partition(".")[0] for action in AuditAction))


def list_actions(texts: Translations) -> dict[str, str]:
    """Return all actions in words, by name."""
    return {action.value: describe_action(texts, action) for action in AuditAction}


def list_objects(texts: Translations) -> dict[str, str]:
    """Return the objects that actions are on, by name."""
    return {name: texts.plain(f"audit.object.{name}") for name in OBJECTS}


def describe_action(texts: Translations, action: str) -> str:
    """Return an action in words; one of a newer release as it is named."""
    key = f"audit.did.{action}"
    return texts.plain(key) if key in texts.texts else action
