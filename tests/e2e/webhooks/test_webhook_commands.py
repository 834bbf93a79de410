"""`florin webhooks`, `florin listen` and `florin trigger`, as they are typed."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from urllib.parse import urlsplit

import pytest
from standardwebhooks import Webhook

from tests.support.answering import answering, answers
from tests.support.command import FLORIN, environment
from tests.support.until import until

pytestmark = pytest.mark.long
NOWHERE = "http://127.0.0.1:9/hooks"


@pytest.fixture(scope="module")
def up(tmp_path_factory, forks):
    home = tmp_path_factory.mktemp("webhooks") / "home"
    with forks.lasting("up", home=home, FLORIN_WEBHOOKS__NETWORKS='["127.0.0.0/8"]') as command:
        yield command
        command.tell(signal.SIGTERM)
        done = command.ended()
        assert (done.status, done.err) == (0, "")


def run(up, forks, *command):
    return forks(*command, home=up.home.path)


async def test_an_endpoint_from_its_creation_to_its_end(up, forks):
    """Typed by the operator, who sees what became of each attempt."""

    def typed(*command):
        return asyncio.to_thread(run, up, forks, *command)

    partner = (await typed("partners", "list")).out.splitlines()[1].split()[0]
    async with answering(answers(503, b"closed\x1b[2J")) as server:
        url = f"http://127.0.0.1:{server.port}/in"
        made = await typed("webhooks", "create", url, "--partner", partner, "--event", "*")
        secret, (word, endpoint_id) = made.out.strip(), made.err.split()[:2]
        assert (secret[:6], word) == ("whsec_", "Endpoint")
        endpoint_id = endpoint_id.rstrip(".")
        again = await typed("webhooks", "create", url, "--partner", partner)
        assert (again.status, endpoint_id in again.err) == (6, True)
        payment_id = (await typed("trigger", "succeeded")).out.strip()
        await until(lambda: server.came)

        async def attempted():
            told = (await typed("webhooks", "attempts", endpoint_id)).out
            return told if "payment.created" in told else None

        told = await until(attempted, patience_s=60)
        assert "503" in told
        assert "closed?[2J" in told
        server.say = answers(204)
        assert (await typed("webhooks", "pause", endpoint_id)).out == f"{endpoint_id} is paused.\n"
        listed = (await typed("webhooks", "list", "--paused")).out
        assert endpoint_id in listed
        assert secret not in listed
        await typed("webhooks", "resume", endpoint_id)
        await until(lambda: len(server.came) >= 3, patience_s=60)
        for request in server.came:
            event = Webhook(secret).verify(request.body, dict(request.headers))
            assert event["data"]["payment_id"] == payment_id
        rotated = (await typed("webhooks", "rotate", endpoint_id, "--overlap", "0")).out.strip()
        replayed = await typed("webhooks", "replay", endpoint_id, payment_id, "--from", "1")
        assert replayed.out == f"{payment_id} is told again, up to version 1.\n"
        await until(lambda: len(server.came) >= 4, patience_s=60)
        last = server.came[-1]
        assert (
            Webhook(rotated).verify(last.body, dict(last.headers))["data"]["payment_state_version"]
            == 1
        )
        server.came.clear()
        since = await typed("webhooks", "replay", endpoint_id, "--since", "2020-01-01")
        # this one, the one that `florin up` shows, and those of other tests
        made = json.loads((await typed("payments", "list", "--json")).out)["payments"]
        assert since.out == f"Payments whose events are told again: {len(made)}.\n"
        await until(lambda: len(server.came) >= 3, patience_s=60)
        for wrong in ([], [payment_id, "--since", "2020-01-01"]):
            told = await typed("webhooks", "replay", endpoint_id, *wrong)
            assert (told.status, "name a payment" in told.err) == (2, True)
        server.came.clear()
        refunded = (await typed("trigger", "refunded")).out.strip()
        await until(lambda: len(server.came) >= 3, patience_s=60)
        last = Webhook(rotated).verify(server.came[-1].body, dict(server.came[-1].headers))
        assert (last["type"], last["data"]["payment_id"]) == ("refund.succeeded", refunded)
        await typed("webhooks", "delete", endpoint_id)
        assert endpoint_id not in (await typed("webhooks", "list")).out


async def test_a_machine_that_nobody_reaches_listens(up, forks):
    """What is told is handed on, signed with the secret that is shown; nothing is left of it."""
    async with answering(answers(200)) as server:
        url = f"http://127.0.0.1:{server.port}/hooks"
        listening = forks.begin("listen", "--forward-to", url, home=up.home.path)
        secret = (await asyncio.to_thread(listening.stdout.readline)).strip()
        assert secret.startswith("whsec_")
        payment_id = (await asyncio.to_thread(run, up, forks, "trigger", "failed")).out.strip()
        await until(lambda: len(server.came) >= 2, patience_s=60)
        types = [Webhook(secret).verify(one.body, dict(one.headers))["type"] for one in server.came]
        assert types == ["payment.created", "payment.failed"]
        shown = await asyncio.to_thread(listening.stdout.readline)
        assert shown.split() == ["payment.created", f"evt_{payment_id[4:]}_0", "200"]
        listening.send_signal(signal.SIGINT)
        await asyncio.to_thread(listening.communicate, timeout=60)
        assert listening.returncode == 0
    listed = await asyncio.to_thread(run, up, forks, "webhooks", "list")
    assert urlsplit(url).netloc not in listed.out
    assert len(listed.out.splitlines()) == 1


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_listen_in_background_of_a_script_deletes_its_endpoint_when_it_is_ended(up, forks, signum):
    """Shells have SIGINT ignored in background jobs; the tests may run in one too."""
    with subprocess.Popen(
        ["sh", "-c", 'trap "" INT; exec "$@"', "sh", FLORIN, "listen", "--forward-to", NOWHERE],
        env=environment(up.home.path, {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as listening:
        assert listening.stdout is not None
        assert listening.stdout.readline().startswith("whsec_")
        assert "florin listen" in run(up, forks, "webhooks", "list", "--json").out
        listening.send_signal(signum)
        _, said = listening.communicate(timeout=60)
    assert (listening.returncode, "Nobody listens any more." in said) == (0, True)
    assert "florin listen" not in run(up, forks, "webhooks", "list", "--json").out


def test_what_cannot_be_meant_is_told(up, forks):
    refused = run(up, forks, "trigger", "lost")
    assert refused.status == 2
    assert "there is no outcome lost" in refused.err
    refused = run(up, forks, "listen", "--forward-to", "localhost:3000")
    assert refused.status == 2
    refused = run(up, forks, "webhooks", "pause", "whe_none")
    assert refused.status == 3
    assert "No such webhook endpoint" in refused.err
