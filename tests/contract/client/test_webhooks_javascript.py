"""What Florin signs, a library in Node that others wrote takes; and nothing that was changed."""

from __future__ import annotations

import time

from florin_server.domain.webhooks import signing
from florin_server.domain.webhooks.signing import Keys

from tests.support.javascript import run

BODY = b'{"type":"payment.succeeded","data":{"referenceId":"\xc3\xa9"}}'
# told: what each verification answers, or that it refused
SCRIPT = """
import { readFileSync } from "node:fs";
import { Webhook } from "standardwebhooks";
const { secret, messages } = JSON.parse(readFileSync(0, "utf8"));
const told = messages.map(({ body, headers }) => {
  try { return new Webhook(secret).verify(body, headers).type; } catch { return "refused"; }
});
console.log(JSON.stringify(told));
"""


def test_a_library_in_node_verifies_what_is_signed():
    old, new = Keys(b"o" * 32, b"p" * 32), Keys(b"n" * 32, b"m" * 32)
    now = int(time.time())
    body = BODY.decode()

    def message(keys, at=now, sent=body):
        return {"body": sent, "headers": signing.headers(keys, "evt_1_0", at, BODY)}

    messages = [
        message([new]),
        # while secrets overlap, whoever has either takes it
        message([old, new]),
        message([new], sent=body.replace("succeeded", "failed")),
        message([old]),
        message([new], at=now - 600),
    ]
    told = run(SCRIPT, {"secret": new.secret, "messages": messages})
    assert told == ["payment.succeeded"] * 2 + ["refused"] * 3
