"""Test that a third-party Node library accepts Florin's signatures and rejects altered messages."""

from __future__ import annotations

import time

from florin_server.domain.webhooks import signing
from florin_server.domain.webhooks.signing import WebhookKeys

from tests.support.javascript import run_script

BODY = b'{"type":"payment.succeeded","data":{"referenceId":"\xc3\xa9"}}'
# prints what each verification returns, or that it refused
SCRIPT = """
import { readFileSync } from "node:fs";
import { Webhook } from "standardwebhooks";
const { secret, messages } = JSON.parse(readFileSync(0, "utf8"));
const results = messages.map(({ body, headers }) => {
  try { return new Webhook(secret).verify(body, headers).type; } catch { return "refused"; }
});
console.log(JSON.stringify(results));
"""


def test_node_library_verifies_signed_webhooks_and_refuses_changes():
    old, new = WebhookKeys(b"o" * 32, b"p" * 32), WebhookKeys(b"n" * 32, b"m" * 32)
    now = int(time.time())
    body = BODY.decode()

    def message(keys, at=now, sent=body):
        return {"body": sent, "headers": signing.build_headers(keys, "evt_1_0", at, BODY)}

    messages = [
        message([new]),
        # while secrets overlap, a receiver with either secret accepts it
        message([old, new]),
        message([new], sent=body.replace("succeeded", "failed")),
        message([old]),
        message([new], at=now - 600),
    ]
    result = run_script(SCRIPT, {"secret": new.secret, "messages": messages})
    assert result == ["payment.succeeded"] * 2 + ["refused"] * 3
