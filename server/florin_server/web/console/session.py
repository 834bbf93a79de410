"""Sessions: an encrypted cookie without a secret, and the tokens of forms.

Processes with the same state folder decrypt each other's cookies. A cookie names an API key, and
every call reads that key again: revoking it ends its sessions at once. A cookie also names its
host, and is invalid at another one. It can have sessions of several keys, the chosen one first.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import orjson
from grpc_rest_gateway.plain import PlainRequest

from florin_server.base.clock import Clock
from florin_server.domain.cipher import Cipher, Ciphertext, DecryptionError
from florin_server.web.console.cookies import list_cookies
from florin_server.web.console.hosts import HostKind, classify_host, get_host_name

IDLE_S = 30 * 60
LIFE_S = 8 * 3600
# later, actions that move money or show secrets ask for the key again
FRESH_S = 10 * 60
TICKET_S = 60
# keys that are signed in at the same time
SESSIONS_MAX = 4
# a page that is loaded sooner does not renew the cookie
_RENEWAL_S = 60
_FORMS_MAX = 10_000
_ID_BYTES = 16
_NONCE_BYTES = 12
# browsers keep 4096
_COOKIE_CHARS = 4000
_PER_S = 1_000_000
# of a session in a cookie
_FIELDS = 7

HttpHeader = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class ConsoleSession:
    """A session that began at `started_s` and last loaded a page at `last_seen_s`.

    `holder` is the id of the API key, or "operator"; the secret was last entered at `verified_s`.
    `host` is the only host name at which the session is valid. `remaining` are the sessions of
    other keys in the same browser, the last used first; they have no others themselves.
    """

    id: str
    holder: str
    live: bool
    started_s: int
    last_seen_s: int
    verified_s: int
    host: str
    remaining: tuple[ConsoleSession, ...] = ()

    def list_all(self) -> tuple[ConsoleSession, ...]:
        """Return the sessions of all keys, each without the others; this one first."""
        return replace(self, remaining=()), *self.remaining

    def choose(self, holder: str) -> ConsoleSession | None:
        """Return the session of another key, with this one among the others; None without it."""
        chosen = next((other for other in self.remaining if other.holder == holder), None)
        return None if chosen is None else self.add(chosen)

    def add(self, session: ConsoleSession) -> ConsoleSession:
        """Return a session with these as its others; an earlier session of its key is dropped."""
        remaining = tuple(each for each in self.list_all() if each.holder != session.holder)
        return replace(session, remaining=remaining)

    def remove(self, holder: str) -> ConsoleSession | None:
        """Return the sessions without that of a key, the last used first; None if none is left."""
        remaining = [session for session in self.list_all() if session.holder != holder]
        return replace(remaining[0], remaining=tuple(remaining[1:])) if remaining else None

    def to_fields(self) -> list[object]:
        """Return the fields as the cookie has them; of a single session as older releases do."""
        single = [
            *(self.id, self.holder, self.live, self.started_s, self.last_seen_s),
            *(self.verified_s, self.host),
        ]
        return (
            [*single, [other.to_fields() for other in self.remaining]] if self.remaining else single
        )


class SessionManager:
    """The sessions of one console.

    `key` encrypts their cookies. `name` distinguishes the cookies of two consoles on one host,
    because cookies ignore ports. `base` is the configured address of links.
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
        self._cipher = Cipher((key,))
        self._clock = clock
        self._randbytes = randbytes
        self._base = base
        self._used_forms: OrderedDict[str, None] = OrderedDict()

    def start(self, holder: str, host: str, *, live: bool) -> ConsoleSession:
        """Return a new session for a host; no browser has had its id before."""
        now_s = self._get_now_s()
        session_id = self._randbytes(_ID_BYTES).hex()
        return ConsoleSession(session_id, holder, live, now_s, now_s, now_s, host)

    def find(self, request: PlainRequest) -> ConsoleSession | None:
        """Return the session of a request; None without one of this host, or when expired.

        `sign_outs` knows whether it was ended.
        """
        host = get_host_name(request)
        return next(
            (session for session in self._read_sessions(request) if session.host == host), None
        )

    def has_foreign_cookie(self, request: PlainRequest) -> bool:
        """Return True for a cookie of another host, which no browser sends on its own."""
        host = get_host_name(request)
        return any(session.host != host for session in self._read_sessions(request))

    def is_fresh(self, session: ConsoleSession) -> bool:
        """Return True if the secret was entered within the last ten minutes."""
        return 0 <= self._get_now_s() - session.verified_s < FRESH_S

    def mark_verified(self, session: ConsoleSession) -> ConsoleSession:
        """Return the session with its secret entered now."""
        return replace(session, verified_s=self._get_now_s())

    def create_ticket(self, session: ConsoleSession) -> str:
        """Return the ticket that takes a browser from the sign-in to the session's host."""
        return self._encrypt_session(session, self._ticket_context)

    def find_by_ticket(self, request: PlainRequest, text: str) -> ConsoleSession | None:
        """Return the session of a ticket; None if it is for another host, or a minute old.

        `sign_outs` knows whether it was used before.
        """
        session = self._decrypt_session(text, self._ticket_context)
        if session is None or session.host != get_host_name(request):
            return None
        return session if 0 <= self._get_now_s() - session.started_s < TICKET_S else None

    def build_renewal_headers(
        self, session: ConsoleSession, request: PlainRequest
    ) -> tuple[HttpHeader, ...]:
        """Return the header that renews a session, if it is due."""
        now_s = self._get_now_s()
        if now_s - session.last_seen_s < _RENEWAL_S:
            return ()
        remaining = tuple(replace(other, last_seen_s=now_s) for other in session.remaining)
        renewed = replace(session, last_seen_s=now_s, remaining=remaining)
        return (self.build_session_cookie(renewed, request),)

    def build_session_cookie(self, session: ConsoleSession, request: PlainRequest) -> HttpHeader:
        """Return the header that sets the cookie of a session."""
        return self._build_cookie(self._encrypt_session(session, self._name), LIFE_S, request)

    def build_removal_cookie(self, request: PlainRequest) -> HttpHeader:
        """Return the header that removes the cookie."""
        return self._build_cookie("", 0, request)

    def derive_csrf_token(self, session: ConsoleSession) -> str:
        """Return the token of a session's forms, which no other site can know."""
        return self._cipher.derive("console form", self._name, session.id)[0].hex()

    def is_csrf_token(self, session: ConsoleSession, token: str) -> bool:
        """Return True if a token is that of the session."""
        return hmac.compare_digest(self.derive_csrf_token(session).encode(), token.encode())

    def find_form_owner(self, session: ConsoleSession, token: str) -> ConsoleSession | None:
        """Return the other session whose form has a token; None if it is of none of them."""
        return next((each for each in session.remaining if self.is_csrf_token(each, token)), None)

    def derive_confirmation_key(self, session: ConsoleSession) -> bytes:
        """Return the key of the codes that a session's confirming pages contain."""
        return self._cipher.derive("console confirmation", self._name, session.id)[0]

    def create_form_id(self) -> str:
        """Return the id of a new form, which makes it act once."""
        return self._randbytes(_ID_BYTES).hex()

    def claim_form(self, session: ConsoleSession, form_id: str) -> bool:
        """Return False if the session already used a form id in this process, or it is invalid."""
        key = f"{session.id} {form_id}"
        if key in self._used_forms or len(form_id) != 2 * _ID_BYTES:
            return False
        _add_bounded(self._used_forms, key, _FORMS_MAX)
        return True

    def release_form(self, session: ConsoleSession, form_id: str) -> None:
        """Release the id of a form that changed nothing."""
        self._used_forms.pop(f"{session.id} {form_id}", None)

    def _read_sessions(self, request: PlainRequest) -> Iterator[ConsoleSession]:
        """Yield the sessions of a request's cookies."""
        for text in list_cookies(request, self._get_cookie_name(request)):
            if (session := self._decrypt_session(text, self._name)) is not None:
                yield session

    def _build_cookie(self, value: str, age_s: int, request: PlainRequest) -> HttpHeader:
        secure = "; Secure" if self._is_tls(request) else ""
        # without a domain it is sent to this host only
        cookie = f"{self._get_cookie_name(request)}={value}; Path=/; Max-Age={age_s}"
        return b"set-cookie", f"{cookie}; HttpOnly; SameSite=Strict{secure}".encode()

    def _get_cookie_name(self, request: PlainRequest) -> str:
        # no other host of the domain, and no plain HTTP response, can set a cookie of this name
        return f"__Host-{self._name}" if self._is_tls(request) else self._name

    def _is_tls(self, request: PlainRequest) -> bool:
        return classify_host(request, self._base) is HostKind.TLS

    @property
    def _ticket_context(self) -> str:
        return f"{self._name} ticket"

    def _encrypt_session(self, session: ConsoleSession, context: str) -> str:
        sealed = self._cipher.encrypt(orjson.dumps(session.to_fields()), context, self._randbytes)
        body = base64.urlsafe_b64encode(sealed.nonce + sealed.ciphertext).decode()
        return f"{sealed.key_id}.{body}"

    def _decrypt_session(self, text: str, context: str) -> ConsoleSession | None:
        key_id, _, body = text[:_COOKIE_CHARS].partition(".")
        try:
            raw = base64.b64decode(body.encode("latin-1"), b"-_", validate=True)
            sealed = Ciphertext(key_id, raw[:_NONCE_BYTES], raw[_NONCE_BYTES:])
            fields = orjson.loads(self._cipher.decrypt(sealed, context))
            session = ConsoleSession(*fields[:_FIELDS])
            remaining = [ConsoleSession(*other) for rows in fields[_FIELDS:] for other in rows]
        except (binascii.Error, ValueError, TypeError, DecryptionError):
            return None
        if self._is_over(session):
            return None
        alive = (
            each for each in remaining if each.host == session.host and not self._is_over(each)
        )
        return replace(session, remaining=tuple(alive))

    def _is_over(self, session: ConsoleSession) -> bool:
        now_s = self._get_now_s()
        return now_s - session.last_seen_s >= IDLE_S or now_s - session.started_s >= LIFE_S

    def _get_now_s(self) -> int:
        return self._clock.now_us() // _PER_S


def _add_bounded(entries: OrderedDict[str, None], key: str, limit: int) -> None:
    entries[key] = None
    if len(entries) > limit:
        entries.popitem(last=False)
