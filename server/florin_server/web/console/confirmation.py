"""The question before an action that cannot be undone.

A form that moves money, deletes or pauses acts only when it is sent a second time, from the page
that shows what it would do. That page's form contains a code over the fields and over everything
the page showed: if one of them has changed since, the person is asked again.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import astuple, dataclass
from typing import Final

import orjson

from florin_server.web.console.fields import FormValues

# the fields of the confirming page: its code, and the name that the person typed
CODE_FIELD: Final = "confirmed"
TYPED_FIELD: Final = "typed_name"
# the field with the key, of the page that asks for it again; never shown back
REAUTH_FIELD: Final = "secret_again"


@dataclass(frozen=True, slots=True)
class ActionConfirmation:
    """Describe what an action would do, for the person to confirm.

    `facts` are names and values. `typed` is the name to type first; empty if none is needed.
    `back` is the page that leaves everything as it is.
    """

    title: str
    button: str
    back: str
    facts: Sequence[tuple[str, str]] = ()
    warning: str = ""
    typed: str = ""

    def compute_code(self, key: bytes, path: str, form: FormValues, skipped: Sequence[str]) -> str:
        """Return the code of this question about a form; `skipped` fields are not part of it."""
        fields = sorted(
            (name, list(values))
            for name, values in form.values.items()
            if name not in {CODE_FIELD, TYPED_FIELD, *skipped}
        )
        text = orjson.dumps([path, fields, astuple(self)])
        return hmac.new(key, text, hashlib.sha256).hexdigest()

    def is_typed(self, form: FormValues) -> bool:
        """Return True if no name has to be typed, or a form has it."""
        # white space at the ends of a name cannot be seen
        return not self.typed or form.text(TYPED_FIELD) == self.typed.strip()

    def find_problem(self, form: FormValues) -> str:
        """Return the message about a form of the confirming page; empty before that page."""
        if not form.text(CODE_FIELD):
            return ""
        return "confirm.changed" if self.is_typed(form) else "confirm.wrong_name"


# None: this form needs no confirmation
Confirmer = Callable[..., Awaitable[ActionConfirmation | None]]
