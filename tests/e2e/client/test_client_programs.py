"""The programs of the documents in languages without a client, run verbatim.

Without a language's toolchain its tests are skipped with a reason.
"""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
from datetime import UTC, datetime, timedelta

import pytest
from standardwebhooks import Webhook

from tests.support.documents import list_blocks

DOCUMENT = "docs/clients.md"
# section, name of the file, command
LANGUAGES = [("Go", "main.go", ("go", "run")), ("PHP", "main.php", ("php",))]
SECRET = f"whsec_{base64.b64encode(bytes(range(24))).decode()}"
BODY = '{"id":"evt_1","type":"payment.succeeded"}'


@pytest.fixture(params=LANGUAGES, ids=lambda language: language[0])
def run(request, tmp_path):
    """Return a function that runs a program of a language, and returns its output."""
    section, name, command = request.param
    if shutil.which(command[0]) is None:
        pytest.skip(f"NOT TESTED in {section}: there is no {command[0]}")
    blocks = {block.place: block.text for block in list_blocks()}

    def run_program(number, text="", **env):
        file = tmp_path / name
        file.write_text(blocks[DOCUMENT, section, number])
        done = subprocess.run(
            [*command, str(file)],
            input=text,
            env={**os.environ, **env},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run_program


def test_program_creates_one_payment_however_often_it_runs(run, up):
    first, second = run(0, **up.env), run(0, **up.env)
    assert re.fullmatch(r"to be paid: http://\S+/pay_\w+", first)
    assert first == second


def sign(age=timedelta(), body=BODY):
    at = datetime.now(UTC) - age
    return {
        "WEBHOOK_ID": "evt_1",
        "WEBHOOK_TIMESTAMP": str(int(at.timestamp())),
        "WEBHOOK_SIGNATURE": f"v1,AAAA {Webhook(SECRET).sign('evt_1', at, body)}",
        "WEBHOOK_SECRET": SECRET,
    }


def test_program_verifies_a_webhook_and_refuses_forged_and_old_ones(run):
    signed = sign()
    assert run(1, BODY, **signed) == "true"
    other = f"whsec_{base64.b64encode(bytes(24)).decode()}"
    refused = [
        (BODY.replace("evt_1", "evt_2"), signed),
        (BODY, {**signed, "WEBHOOK_ID": "evt_2"}),
        (BODY, {**signed, "WEBHOOK_SIGNATURE": "v1,AAAA"}),
        (BODY, {**signed, "WEBHOOK_TIMESTAMP": "now"}),
        (BODY, {**signed, "WEBHOOK_SECRET": other}),
        (BODY, {**signed, "WEBHOOK_SECRET": "whsec_"}),
        (BODY, sign(timedelta(minutes=6))),
        (BODY, sign(timedelta(minutes=-6))),
    ]
    for body, env in refused:
        assert run(1, body, **env) == "false", env
