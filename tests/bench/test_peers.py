"""Test the input to peers, and how their answers are used."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from google.protobuf.descriptor_pool import DescriptorPool

from tests.bench import database, session, transcoder
from tests.bench.facilitator import Facilitator

PIPE = subprocess.PIPE
# each is a separate process that answers once
ANSWERS = {
    "does": 'print(\'{"seconds": 0.5, "cpu_s": 0.1, "refused": []}\')',
    "refuses": 'print(\'{"seconds": 1, "cpu_s": 1, "refused": ["invalid_signature"]}\')',
    "ends": "raise SystemExit(3)",
    "is silent": "import threading; threading.Event().wait()",
}


@pytest.fixture
def facilitator(request):
    program = f"input()\n{ANSWERS[request.param]}"
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, text=True) as process:
        yield Facilitator(process, patience_s=20 if request.param != "is silent" else 0.2)
        process.kill()


@pytest.mark.parametrize("facilitator", ["does"], indirect=True)
def test_facilitator_rate_and_cpu_match_its_figures(facilitator):
    pace = facilitator.does("verify", [{}, {}], 1)
    assert (pace.rate, pace.cpu_ms) == (4, 50)


@pytest.mark.parametrize(
    ("facilitator", "message"),
    [("refuses", "invalid_signature"), ("ends", "ended with 3"), ("is silent", "ended with -9")],
    indirect=["facilitator"],
)
def test_a_facilitator_that_does_not_do_it_has_no_pace(facilitator, message):
    with pytest.raises(RuntimeError, match=message):
        facilitator.does("settle", [{}], 1)


def test_envoy_descriptors_include_every_service_type():
    pool = DescriptorPool()
    for file in transcoder._descriptors().file:  # noqa: SLF001
        pool.Add(file)
    for service in ("GatewayService", "MerchantService"):
        assert pool.FindServiceByName(f"florin.v1.{service}").methods


def test_pgbench_writes_the_values_of_a_create():
    sql = "INSERT INTO a VALUES ($1::VARCHAR, $2::BYTEA, $3::BIGINT, $4::BOOLEAN, $5::VARCHAR)"
    output = database._literally(sql, ("pay_1", b"\1\xff", 10**18, True, None), "pay_1")  # noqa: SLF001
    assert output == (
        "INSERT INTO a VALUES (('pay_' || :n::text)::VARCHAR, '\\x01ff'::BYTEA, "
        "1000000000000000000::BIGINT, True::BOOLEAN, NULL::VARCHAR);"
    )


def test_cpu_time_of_ended_child_processes_is_counted():
    before = database.server_cpu_s(os.getpid())
    burn = "import time\nwhile time.process_time() < 0.2: pass"
    subprocess.run([sys.executable, "-c", burn], check=True, timeout=60)
    assert database.server_cpu_s(os.getpid()) - before >= 0.15


def test_session_commits_the_requested_number_of_creates():
    assert session.creates(3).answered == 3
