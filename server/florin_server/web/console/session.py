"""Who signed in: a sealed cookie that holds no secret, and what a form has to bring with it.

Processes that have one state folder open each other's cookies. A cookie names a key, and every
call reads that key again: one that is revoked ends its sessions at once. It also names the host
that it is for, and opens nothing at another one.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass, replace

import orjson
from florin_gateway.plain import PlainRequest

from florin_server.clock import Clock
from florin_server.domain.sealed import Lost, Seal, Sealed
from florin_server.web.console.hosts import Place, name_of, place_of

IDLE_S = 30 * 60
LIFE_S = 8 * 3600
# what moves money or hands out secrets asks for the key again after that
FRESH_S = 10 * 60
TICKET_S = 60
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

    `holder` is the id of the key that was shown, or "operator"; it was shown last at `proved_s`.
    `host` is the one host name that the session is for.
    """

    id: str
    holder: str
    live: bool
    began_s: int
    seen_s: int
    proved_s: int
    host: str


class Sessions:
    """The sessions of one console.

    `key` seals them; `name` tells its cookie from that of another console on the same host, as
    cookies do not know ports. `base` is the configured address of links.
    """

    def __init__(
        self,
        name: str,
        key: bytes,
        clock: Clock,
        randbytes: Callable[[int], bytes],
        base: str = "",
    ) -> None:
        self._name = f"florin_{name}"
        self._seal = Seal((key,))
        self._clock = clock
        self._randbytes = randbytes
        self._base = base
        self._forms: OrderedDict[str, None] = OrderedDict()

    def begin(self, holder: str, host: str, *, live: bool) -> Session:
        """A new session for one host; its id never was in a browser before."""
        now_s = self._now_s()
        told_id = self._randbytes(_ID_BYTES).hex()
        return Session(told_id, holder, live, now_s, now_s, now_s, host)

    def of(self, request: PlainRequest) -> Session | None:
        """Whose request it is; None without a session of this host, or once it is idle or old.

        Whether somebody ended it, `sign_outs` knows.
        """
        host = name_of(request)
        return next((one for one in self._shown(request) if one.host == host), None)

    def strays(self, request: PlainRequest) -> bool:
        """True for a cookie that is of another host: no browser sends it by itself."""
        host = name_of(request)
        return any(one.host != host for one in self._shown(request))

    def is_fresh(self, session: Session) -> bool:
        """True if the key was shown within the last ten minutes."""
        return 0 <= self._now_s() - session.proved_s < FRESH_S

    def proved(self, session: Session) -> Session:
        """The same session, whose key was shown now."""
        return replace(session, proved_s=self._now_s())

    def ticket(self, session: Session) -> str:
        """What leads a browser from the sign-in to the host of a new session."""
        return self._closed(session, self._ticket_place)

    def ticketed(self, request: PlainRequest, text: str) -> Session | None:
        """The session that a ticket is for; None if it is not of this host, or a minute old.

        Whether it was used before, `sign_outs` knows.
        """
        found = self._opened(text, self._ticket_place)
        if found is None or found.host != name_of(request):
            return None
        return found if 0 <= self._now_s() - found.began_s < TICKET_S else None

    def renewed(self, session: Session, request: PlainRequest) -> tuple[Header, ...]:
        """The header that has a session go on, if it is time for that."""
        now_s = self._now_s()
        if now_s - session.seen_s < _RENEWED_S:
            return ()
        return (self.given(replace(session, seen_s=now_s), request),)

    def given(self, session: Session, request: PlainRequest) -> Header:
        """The header that hands a session to a browser."""
        return self._cookie(self._closed(session, self._name), LIFE_S, request)

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

    def _shown(self, request: PlainRequest) -> Iterator[Session]:
        """The sessions whose cookies a request brings."""
        wanted = self._cookie_name(request)
        for name, value in request.headers:
            if name != b"cookie":
                continue
            for pair in value.decode("latin-1").split(";"):
                key, _, text = pair.strip().partition("=")
                if key == wanted and (found := self._opened(text, self._name)) is not None:
                    yield found

    def _cookie(self, value: str, age_s: int, request: PlainRequest) -> Header:
        secure = "; Secure" if self._is_tls(request) else ""
        # without a domain it is of this host only
        told = f"{self._cookie_name(request)}={value}; Path=/; Max-Age={age_s}"
        return b"set-cookie", f"{told}; HttpOnly; SameSite=Strict{secure}".encode()

    def _cookie_name(self, request: PlainRequest) -> str:
        # no other host of the domain, and nobody on plain text, can set a cookie of this name
        return f"__Host-{self._name}" if self._is_tls(request) else self._name

    def _is_tls(self, request: PlainRequest) -> bool:
        return place_of(request, self._base) is Place.TLS

    @property
    def _ticket_place(self) -> str:
        return f"{self._name} ticket"

    def _closed(self, session: Session, place: str) -> str:
        sealed = self._seal.close(orjson.dumps(astuple(session)), place, self._randbytes)
        body = base64.urlsafe_b64encode(sealed.nonce + sealed.ciphertext).decode()
        return f"{sealed.key_id}.{body}"

    def _opened(self, text: str, place: str) -> Session | None:
        key_id, _, body = text[:_COOKIE_CHARS].partition(".")
        try:
            raw = base64.b64decode(body.encode("latin-1"), b"-_", validate=True)
            sealed = Sealed(key_id, raw[:_NONCE_BYTES], raw[_NONCE_BYTES:])
            session = Session(*orjson.loads(self._seal.open(sealed, place)))
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
