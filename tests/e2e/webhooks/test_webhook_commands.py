"""`florin webhooks`, `florin listen` and `florin trigger`, as they are typed."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from urllib.parse import urlsplit

import pytest
from standardwebhooks import Webhook

from tests.support.command import FLORIN, make_environment
from tests.support.http_stub import make_stub_response, serve_stub
from tests.support.until import wait_until

pytestmark = pytest.mark.long
NOWHERE = "http://127.0.0.1:9/hooks"


@pytest.fixture(scope="module")
def up(tmp_path_factory, forks):
    home = tmp_path_factory.mktemp("webhooks") / "home"
    with forks.start_lasting(
        "up", home=home, FLORIN_WEBHOOKS__NETWORKS='["127.0.0.0/8"]'
    ) as command:
        yield command
        command.send_signal(signal.SIGTERM)
        done = command.wait_ended()
        assert (done.status, done.err) == (0, "")


def run(up, forks, *command):
    return forks(*command, home=up.home.path)


async def test_an_endpoint_from_its_creation_to_its_end(up, forks):
    """The operator types the commands, and sees the result of each attempt."""

    def typed(*command):
        return asyncio.to_thread(run, up, forks, *command)

    partner = (await typed("partners", "list")).out.splitlines()[1].split()[0]
    async with serve_stub(make_stub_response(503, b"closed\x1b[2J")) as server:
        url = f"http://127.0.0.1:{server.port}/in"
        payments = await typed("webhooks", "create", url, "--partner", partner, "--event", "*")
        secret, (word, endpoint_id) = payments.out.strip(), payments.err.split()[:2]
        assert (secret[:6], word) == ("whsec_", "Endpoint")
        endpoint_id = endpoint_id.rstrip(".")
        again = await typed("webhooks", "create", url, "--partner", partner)
        assert (again.status, endpoint_id in again.err) == (6, True)
        payment_id = (await typed("trigger", "succeeded")).out.strip()
        await wait_until(lambda: server.requests)

        async def attempted():
            out = (await typed("webhooks", "attempts", endpoint_id)).out
            return out if "payment.created" in out else None

        result = await wait_until(attempted, patience_s=240)
        assert "503" in result
        assert "closed?[2J" in result
        server.handler = make_stub_response(204)
        assert (await typed("webhooks", "pause", endpoint_id)).out == f"{endpoint_id} is paused.\n"
        listed = (await typed("webhooks", "list", "--paused")).out
        assert endpoint_id in listed
        assert secret not in listed
        await typed("webhooks", "resume", endpoint_id)
        await wait_until(lambda: len(server.requests) >= 3, patience_s=240)
        for request in server.requests:
            event = Webhook(secret).verify(request.body, dict(request.headers))
            assert event["data"]["payment_id"] == payment_id
        rotated = (await typed("webhooks", "rotate", endpoint_id, "--overlap", "0")).out.strip()
        replayed = await typed("webhooks", "replay", endpoint_id, payment_id, "--from", "1")
        assert replayed.out == f"Queued the events of {payment_id} up to version 1.\n"
        await wait_until(lambda: len(server.requests) >= 4, patience_s=240)
        last = server.requests[-1]
        assert (
            Webhook(rotated).verify(last.body, dict(last.headers))["data"]["payment_state_version"]
            == 1
        )
        server.requests.clear()
        since = await typed("webhooks", "replay", endpoint_id, "--since", "2020-01-01")
        # this one, the one that `florin up` shows, and those of other tests
        payments = json.loads((await typed("payments", "list", "--json")).out)["payments"]
        assert since.out == f"Queued the events of {len(payments)} payments.\n"
        await wait_until(lambda: len(server.requests) >= 3, patience_s=240)
        for wrong in ([], [payment_id, "--since", "2020-01-01"]):
            result = await typed("webhooks", "replay", endpoint_id, *wrong)
            assert (result.status, "pass either a payment id" in result.err) == (2, True)
        server.requests.clear()
        refunded = (await typed("trigger", "refunded")).out.strip()
        await wait_until(lambda: len(server.requests) >= 3, patience_s=240)
        last = Webhook(rotated).verify(server.requests[-1].body, dict(server.requests[-1].headers))
        assert (last["type"], last["data"]["payment_id"]) == ("refund.succeeded", refunded)
        await typed("webhooks", "delete", endpoint_id)
        assert endpoint_id not in (await typed("webhooks", "list")).out


async def test_unreachable_machine_receives_events_with_listen(up, forks):
    """Events are forwarded, signed with the secret that is shown; nothing is left afterwards."""
    async with serve_stub(make_stub_response(200)) as server:
        url = f"http://127.0.0.1:{server.port}/hooks"
        listening = forks.begin("listen", "--forward-to", url, home=up.home.path)
        secret = (await asyncio.to_thread(listening.stdout.readline)).strip()
        assert secret.startswith("whsec_")
        payment_id = (await asyncio.to_thread(run, up, forks, "trigger", "failed")).out.strip()
        await wait_until(lambda: len(server.requests) >= 2, patience_s=240)
        types = [
            Webhook(secret).verify(request.body, dict(request.headers))["type"]
            for request in server.requests
        ]
        assert types == ["payment.created", "payment.failed"]
        shown = await asyncio.to_thread(listening.stdout.readline)
        assert shown.split() == ["payment.created", f"evt_{payment_id[4:]}_0", "200"]
        listening.send_signal(signal.SIGINT)
        await asyncio.to_thread(listening.communicate, timeout=240)
        assert listening.returncode == 0
    listed = await asyncio.to_thread(run, up, forks, "webhooks", "list")
    assert urlsplit(url).netloc not in listed.out
    assert len(listed.out.splitlines()) == 1


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_listen_in_background_of_a_script_deletes_its_endpoint_when_it_is_ended(up, forks, signum):
    """Shells have SIGINT ignored in background jobs; the tests may run in one too."""
    with subprocess.Popen(
        ["sh", "-c", 'trap "" INT; exec "$@"', "sh", FLORIN, "listen", "--forward-to", NOWHERE],
        env=make_environment(up.home.path, {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as listening:
        assert listening.stdout is not None
        assert listening.stdout.readline().startswith("whsec_")
        assert "florin listen" in run(up, forks, "webhooks", "list", "--json").out
        listening.send_signal(signum)
        _, text = listening.communicate(timeout=240)
    assert (listening.returncode, "Stopped listening." in text) == (0, True)
    assert "florin listen" not in run(up, forks, "webhooks", "list", "--json").out


def test_invalid_webhook_command_is_refused(up, forks):
    refused = run(up, forks, "trigger", "lost")
    assert refused.status == 2
    assert "unknown outcome 'lost'" in refused.err
    refused = run(up, forks, "listen", "--forward-to", "localhost:3000")
    assert refused.status == 2
    refused = run(up, forks, "webhooks", "pause", "whe_none")
    assert refused.status == 3
    assert "Webhook endpoint not found" in refused.err
