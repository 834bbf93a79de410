"""Who signed in: a sealed cookie that holds no secret, and what a form has to bring with it.

Processes that have one state folder open each other's cookies. A cookie names a key, and every
call reads that key again: one that is revoked ends its sessions at once.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace

import orjson
from florin_gateway.plain import PlainRequest

from florin_server.clock import Clock
from florin_server.domain.sealed import Lost, Seal, Sealed

IDLE_S = 30 * 60
LIFE_S = 8 * 3600
# a page that is loaded sooner leaves the cookie as it is
_RENEWED_S = 60
_FORMS_MAX = 10_000
_ID_BYTES = 16
_NONCE_BYTES = 12
_COOKIE_CHARS = 1024
_PER_S = 1_000_000

Header = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Session:
    """Somebody who signed in at `began_s`, and loaded a page last at `seen_s`.

    `holder` is the id of the key that was shown, or "operator".
    """

    id: str
    holder: str
    live: bool
    began_s: int
    seen_s: int


class Sessions:
    """The sessions of one console.

    `key` seals them; `name` tells its cookie from that of another console on the same host, as
    cookies do not know ports.
    """

    def __init__(
        self, name: str, key: bytes, clock: Clock, randbytes: Callable[[int], bytes]
    ) -> None:
        self._name = f"florin_{name}"
        self._seal = Seal((key,))
        self._clock = clock
        self._randbytes = randbytes
        self._forms: OrderedDict[str, None] = OrderedDict()

    def begin(self, holder: str, *, live: bool) -> Session:
        """A new session; its id never was in a browser before."""
        now_s = self._now_s()
        return Session(self._randbytes(_ID_BYTES).hex(), holder, live, now_s, now_s)

    def of(self, request: PlainRequest) -> Session | None:
        """Whose request it is; None without a session, or once it is idle or old.

        Whether somebody ended it, `sign_outs` knows.
        """
        wanted = self._cookie_name(request)
        for name, value in request.headers:
            if name != b"cookie":
                continue
            for pair in value.decode("latin-1").split(";"):
                key, _, text = pair.strip().partition("=")
                if key == wanted and (found := self._opened(text)) is not None:
                    return found
        return None

    def renewed(self, session: Session, request: PlainRequest) -> tuple[Header, ...]:
        """The header that has a session go on, if it is time for that."""
        now_s = self._now_s()
        if now_s - session.seen_s < _RENEWED_S:
            return ()
        return (self.given(replace(session, seen_s=now_s), request),)

    def given(self, session: Session, request: PlainRequest) -> Header:
        """The header that hands a session to a browser."""
        told = [session.id, session.holder, session.live, session.began_s, session.seen_s]
        sealed = self._seal.close(orjson.dumps(told), self._name, self._randbytes)
        body = base64.urlsafe_b64encode(sealed.nonce + sealed.ciphertext).decode()
        return self._cookie(f"{sealed.key_id}.{body}", LIFE_S, request)

    def taken(self, request: PlainRequest) -> Header:
        """The header that takes a session from a browser."""
        return self._cookie("", 0, request)

    def token(self, session: Session) -> str:
        """What a form of this session brings with it, and no other site can know."""
        return self._seal.derive("console form", self._name, session.id)[0].hex()

    def is_token(self, session: Session, told: str) -> bool:
        """True for that of this session."""
        return hmac.compare_digest(self.token(session).encode(), told.encode())

    def form_id(self) -> str:
        """The id of one form that is shown: what is sent with it is done once."""
        return self._randbytes(_ID_BYTES).hex()

    def take(self, session: Session, form_id: str) -> bool:
        """False if this process took a form of that id in this session before, or it has none."""
        key = f"{session.id} {form_id}"
        if key in self._forms or len(form_id) != 2 * _ID_BYTES:
            return False
        _remember(self._forms, key, _FORMS_MAX)
        return True

    def give_back(self, session: Session, form_id: str) -> None:
        """Undoes that for a form that did nothing."""
        self._forms.pop(f"{session.id} {form_id}", None)

    def _cookie(self, value: str, age_s: int, request: PlainRequest) -> Header:
        secure = "; Secure" if request.scheme == "https" else ""
        told = f"{self._cookie_name(request)}={value}; Path=/; Max-Age={age_s}"
        return b"set-cookie", f"{told}; HttpOnly; SameSite=Strict{secure}".encode()

    def _cookie_name(self, request: PlainRequest) -> str:
        # no other host of the domain, and nobody on plain text, can set a cookie of this name
        return f"__Host-{self._name}" if request.scheme == "https" else self._name

    def _opened(self, text: str) -> Session | None:
        key_id, _, body = text[:_COOKIE_CHARS].partition(".")
        try:
            raw = base64.b64decode(body.encode("latin-1"), b"-_", validate=True)
            sealed = Sealed(key_id, raw[:_NONCE_BYTES], raw[_NONCE_BYTES:])
            session = Session(*orjson.loads(self._seal.open(sealed, self._name)))
        except (binascii.Error, ValueError, TypeError, Lost):
            return None
        now_s = self._now_s()
        over = now_s - session.seen_s >= IDLE_S or now_s - session.began_s >= LIFE_S
        return None if over else session

    def _now_s(self) -> int:
        return self._clock.now_us() // _PER_S


def _remember(known: OrderedDict[str, None], key: str, most: int) -> None:
    known[key] = None
    if len(known) > most:
        known.popitem(last=False)
