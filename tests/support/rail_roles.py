"""The roles of rails, read from the types of `Rail`'s members."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, Protocol, get_type_hints

from florin_server.rails import address_roles, facilitation, provisioning, roles, transfers
from florin_server.rails.protocol import Rail

ROLES: dict[str, Any] = {
    name: role
    for module in (roles, address_roles, facilitation, provisioning, transfers)
    for name, role in vars(module).items()
    if inspect.isclass(role) and Protocol in role.__bases__
}


def find_role(member: str) -> Any:
    """Return the protocol that a member of `Rail` plays; None for other members."""
    getter = vars(Rail)[member]
    if not isinstance(getter, property) or getter.fget is None:
        return None
    hint = get_type_hints(getter.fget)["return"]
    types = getattr(hint, "__args__", (hint,))
    return next((role for role in types if role in ROLES.values()), None)


def list_members(protocol: Any) -> set[str]:
    """Return the public members of a protocol."""
    return {name for name in vars(protocol) if not name.startswith("_")}


def list_role_methods() -> Iterator[tuple[str, list[str]]]:
    """Yield each member of `Rail` that is a role, with the role's public methods."""
    for member in vars(Rail):
        if not member.startswith("_") and (role := find_role(member)) is not None:
            yield (
                member,
                [name for name in list_members(role) if inspect.isfunction(vars(role)[name])],
            )
