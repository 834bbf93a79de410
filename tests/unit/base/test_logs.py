"""Test log lines: which objects they name, and which data they never contain."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from florin_server.app import log_redaction
from florin_server.app.home import InstallationSecrets
from florin_server.base import logs
from florin_server.base.logs import JsonLogFormatter, Redactor, TextLogFormatter
from florin_server.domain.accounts.credentials import ApiKeyKind, generate_key
from florin_server.domain.ids import generate_payment_id, generate_short_id
from florin_server.rails.evm.settings import EvmChainSettings
from florin_server.settings import Settings

HASH = "0x" + "ab" * 32
CHAIN = "eip155:8453"


def randbytes(count: int) -> bytes:
    return bytes(range(7, 7 + count))


def line(message: str, *args: object, error: BaseException | None = None) -> logging.LogRecord:
    trace = (type(error), error, error.__traceback__) if error else None
    return logging.LogRecord("florin_server.x", logging.WARNING, "x.py", 1, message, args, trace)


def read_json_line(record: logging.LogRecord, redact: Redactor | None = None) -> dict[str, str]:
    return json.loads(JsonLogFormatter(redact or Redactor()).format(record))


def raised(error: Exception) -> Exception:
    with pytest.raises(type(error)) as caught:
        raise error
    return caught.value


@pytest.fixture
def context() -> Iterator[None]:
    request, chain = logs.REQUEST.set("req_1"), logs.CHAIN.set("eip155:1")
    yield
    logs.REQUEST.reset(request)
    logs.CHAIN.reset(chain)


def test_log_line_carries_the_ids_of_its_message(context):
    payment, payout = (
        generate_payment_id(1_800_000_000_000_000, randbytes),
        generate_short_id("pout_", randbytes),
    )
    result = read_json_line(line("%s of %s is paid back by %s on %s", HASH, payment, payout, CHAIN))
    assert result.pop("time").endswith("Z")
    assert result == {
        "level": "warning",
        "logger": "florin_server.x",
        "message": f"{HASH} of {payment} is paid back by {payout} on {CHAIN}",
        "request_id": "req_1",
        "payment_id": payment,
        "payout_id": payout,
        "tx_id": HASH,
        "chain": CHAIN,
    }


def test_a_line_is_about_the_chain_in_whose_work_it_was_written(context):
    assert read_json_line(line("a turn is over"))["chain"] == "eip155:1"
    text = TextLogFormatter(Redactor()).format(line("a turn is over"))
    assert text.endswith("a turn is over [request_id=req_1 chain=eip155:1]")


def test_only_a_whole_argument_is_an_id():
    result = read_json_line(line("%s", f"a node says {HASH} of pay_123"))
    assert result.keys() == {"time", "level", "logger", "message"}


KEY = generate_key(ApiKeyKind.PARTNER, True, randbytes).secret
PLANTED = {
    "an API key": (f"caller sent {KEY}", KEY[-49:]),
    "a node with a key in its path": ("https://rpc.example/v2/s3cr3t-k3y failed", "s3cr3t-k3y"),
    "a node with a key in its query": ("wss://rpc.example?apikey=s3cr3t failed", "s3cr3t"),
    "a node with a password": ("https://user:hunter22@rpc.example:8545 failed", "hunter22"),
    "a password that holds an @": ("postgres://u:p@s3cr3t/x@db/florin", "s3cr3t"),
    "a DSN": ("postgresql+asyncpg://florin:hunter22@db.internal/florin", "hunter22"),
    "a DSN of words": ("host=db user=florin password=hunter22 dbname=florin", "hunter22"),
    "a token in a link": ("https://pay.example/form?ticket=s3cr3t", "s3cr3t"),
    "a bearer": ("Authorization: Bearer abcdefgh.ijk-lmn", "abcdefgh"),
    "a JSON member": ('{"client_secret": "s3cr3t", "x": 1}', "s3cr3t"),
    "a Python member": ("{'operatorToken': 's3cr3t'}", "s3cr3t"),
    "an address of mail": ("buyer ada.l+x@example.co.uk left", "ada"),
}


@pytest.mark.parametrize("name", PLANTED)
@pytest.mark.parametrize("form", [JsonLogFormatter, TextLogFormatter])
def test_planted_secret_is_redacted_from_every_line(name, form):
    text, secret = PLANTED[name]
    created = form(Redactor())
    assert secret in text
    assert secret not in created.format(line(text))
    assert secret not in created.format(line("it failed: %s", text))
    assert secret not in created.format(line("it failed", error=raised(ValueError(text))))


def test_harmless_text_is_not_redacted():
    text = (
        "http://127.0.0.1:8080, ws://rpc.example. https://[::1]:8545/ "
        f"{HASH} 10.0.0.1 has a different gateway token: Florin ignores it; secret_name"
    )
    assert Redactor()(text) == text
    key = KEY.rpartition("_")[0]
    assert key in Redactor()(KEY)


def test_the_secrets_of_the_settings_are_hidden_wherever_they_turn_up(tmp_path, monkeypatch):
    redactor = Redactor()
    monkeypatch.setattr(logs, "redactor", redactor)
    installation_secrets = InstallationSecrets(
        b"pepper-of-32-bytes-............!", "operator-token", b"r" * 32, b"d" * 32, ()
    )
    base = EvmChainSettings.model_construct(rpc_url=("https://rpc.example/v2/0123456789abcdef",))
    settings = Settings(
        home=tmp_path,
        gateway_token="g" * 40,
        keystore_password="correct horse battery",
        trusted_proxies=("fd00::/8",),
    ).model_copy(update={"chains": (base,)})
    log_redaction.hide_settings(settings, *log_redaction.list_secret_forms(installation_secrets))
    planted = (
        "operator-token",
        installation_secrets.relayer_key.hex(),
        installation_secrets.treasury_key.hex(),
        "g" * 40,
        "correct horse battery",
        "0123456789abcdef",
        installation_secrets.gateway_token,
    )
    for secret in planted:
        assert secret not in read_json_line(line("<%s>", secret), redactor)["message"], secret
    # a key looks like a hash, but is not logged as a hash
    assert "tx_id" not in read_json_line(
        line("%s", "0x" + installation_secrets.relayer_key.hex()), redactor
    )


def test_log_message_cannot_forge_a_second_line():
    forged = "x\n2026-01-01 ERROR florin_server all is lost\x1b[2J\u2028\x9b"
    text = TextLogFormatter(Redactor()).format(line("refused: %s", forged))
    assert "\n" not in text
    assert "\x1b" not in text
    assert "\x9b" not in text
    record = JsonLogFormatter(Redactor()).format(line("refused: %s", forged))
    assert "\n" not in record
    assert json.loads(record)["message"].startswith("refused: x\n")


def test_error_with_lines_begins_no_line_of_the_log():
    error = raised(ValueError("x\n2026-01-01 ERROR florin_server all is lost\u2028\x9b"))
    first, *remaining = TextLogFormatter(Redactor()).format(line("failed", error=error)).split("\n")
    assert first.endswith("failed")
    assert len(remaining) > 2
    assert all(text.startswith("    ") and text.isprintable() for text in remaining)


def test_request_id_of_a_caller_steers_nothing():
    token = logs.REQUEST.set("a\x9b\u202e\nb")
    try:
        text = TextLogFormatter(Redactor()).format(line("refused"))
        record = JsonLogFormatter(Redactor()).format(line("refused"))
    finally:
        logs.REQUEST.reset(token)
    assert text.isprintable()
    assert record.isprintable()


def test_a_line_is_bounded_and_is_text():
    long = line("%s", "x" * 100_000, error=raised(ValueError("y" * 100_000)))
    assert len(JsonLogFormatter(Redactor()).format(long)) < 20_000
    assert read_json_line(line("%s", "\ud800"))["message"] == "\\ud800"
    assert read_json_line(line("%d of %s", "no number"))["message"] == "%d of %s"


def test_a_long_line_is_read_at_once():
    """With quadratic time, these lines would take minutes."""
    began = time.perf_counter()
    for item in (
        "a",
        "http://",
        "a@",
        "password",
        "a.-",
        "token = ",
        "'",
        "bearer ",
        "fl_live_pk_",
    ):
        Redactor()(item * (100_000 // len(item)))
    assert time.perf_counter() - began < 20


_WRITES = """
import threading, warnings, logging, sys
from florin_server.cli.console import announce, fail
from florin_server.cli.settings import log_to_stderr
from florin_server.settings import Settings
log_to_stderr(Settings(log_format="json"), 2)
warnings.warn("an old call", DeprecationWarning)
warnings.warn("two\\nlines", UserWarning)
logging.getLogger("uvicorn.error").error("of uvicorn")
logging.getLogger("aiohttp.client").warning("of aiohttp")
class Ends:
    def __del__(self):
        raise ValueError("at the end")
Ends()
def breaks():
    raise ValueError("in a thread")
one = threading.Thread(target=breaks)
one.start()
one.join()
announce("Stopping")
try:
    fail("Florin does not start", "the port is taken")
except SystemExit:
    raise ValueError("password=hunter22 of a user")
"""


def test_all_stderr_output_is_json_in_json_mode(tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", _WRITES],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    result = [json.loads(line) for line in done.stderr.splitlines()]
    assert {item["process"] for item in result} == {"2"}
    text = " ".join(f"{item['message']} {item.get('error', '')}" for item in result)
    for part in (
        "an old call",
        "of uvicorn",
        "of aiohttp",
        "at the end",
        "in a thread",
        "Stopping",
        "Florin does not start: the port is taken",
        "uncaught exception: ValueError",
    ):
        assert part in text
    assert "hunter22" not in done.stderr


@pytest.mark.parametrize("form", [JsonLogFormatter, TextLogFormatter])
def test_line_about_another_process_names_that_process(form):
    record = line("it ended")
    record.__dict__.update(logs.build_process_extra(0))
    result = form(Redactor(), process=7).format(record)
    assert ('"process":"1"' in result) or ("process=1" in result)
    assert "7" not in result.partition("it ended")[2]
