"""The TypeScript client: built, packed, and used with a running Florin."""

from __future__ import annotations

import base64
import json
import re
import shutil
import signal
from datetime import UTC, datetime

import pytest
from standardwebhooks import Webhook

from tests.support.documents import list_blocks
from tests.support.typescript_client import SOURCES, build_client, run_node

# installs its tools from npm
pytestmark = pytest.mark.slow

README = "client/typescript/README.md"
# how other runtimes run the files of tests
RUNTIMES = {"deno": ("test", "-A", "--no-check"), "bun": ("test", "--timeout", "60000")}


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    return build_client(tmp_path_factory.mktemp("typescript"))


@pytest.fixture(scope="module")
def up(tmp_path_factory, forks):
    home = tmp_path_factory.mktemp("up") / "home"
    changes = {"FLORIN_WEBHOOKS__NETWORKS": '["127.0.0.0/8"]'}
    with forks.start_lasting("up", home=home, **changes) as command:
        yield command
        command.send_signal(signal.SIGTERM)
        assert command.wait_ended().status == 0


def get_block(section: str) -> str:
    (block,) = (block for block in list_blocks() if block.place == (README, section, 0))
    return block.text


def test_client_behaves_without_a_server(package):
    run_node(package, "node", "--test", "test/client.test.mjs")


def test_client_pays_refunds_and_follows_with_a_running_florin(package, up):
    run_node(package, "node", "--test", "test/service.test.mjs", env=up.env)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_client_does_the_same_in_other_runtimes(package, up, runtime):
    if shutil.which(runtime) is None:
        pytest.skip(f"NOT TESTED with {runtime}: it is not installed")
    for name in ("client", "service"):
        run_node(package, runtime, *RUNTIMES[runtime], f"./test/{name}.test.mjs", env=up.env)


def test_quick_start_of_the_readme_runs(package, up):
    lines = get_block("Quick start").splitlines()
    assert len(lines) <= 16
    (package / "quick_start.mjs").write_text("\n".join(lines))
    out = run_node(package, "node", "quick_start.mjs", env=up.env).splitlines()
    assert re.fullmatch(r"to be paid: http://\S+/pay_\w+", out[0])
    assert out[1:] == ["succeeded"]


def test_webhook_handler_of_the_readme_verifies_signatures(package):
    secret = f"whsec_{base64.b64encode(bytes(range(24))).decode()}"
    at = datetime.now(UTC)
    body = '{"type":"payment.succeeded","data":{"payment_id":"pay_1","status":"succeeded"}}'
    headers = {
        "webhook-id": "evt_1",
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Webhook(secret).sign("evt_1", at, body),
    }
    sent = json.dumps({"method": "POST", "headers": headers, "body": body})
    script = f"""{get_block("Webhooks")}
for (const body of [undefined, "{{}}"]) {{
  const init = {{ ...{sent}, ...(body && {{ body }}) }};
  const request = new Request("https://shop.example/hooks", init);
  console.log((await handleWebhook(request, "{secret}")).status);
}}
"""
    (package / "handler.mjs").write_text(script)
    out = run_node(package, "node", "handler.mjs").splitlines()
    assert out == ["payment.succeeded pay_1 succeeded", "204", "400"]


def test_package_contains_the_build_and_needs_nothing(package):
    (packed,) = json.loads(
        run_node(package, "npm", "pack", "--dry-run", "--json", "--ignore-scripts")
    )
    modules = {file.stem for file in (SOURCES / "src").glob("*.ts")} | {"api"}
    built = {f"dist/{name}{suffix}" for name in modules for suffix in (".js", ".d.ts")}
    assert {file["path"] for file in packed["files"]} == {
        "package.json",
        "README.md",
        "LICENSE",
        *built,
    }
    manifest = json.loads((SOURCES / "package.json").read_text())
    assert not {"dependencies", "peerDependencies", "optionalDependencies"} & manifest.keys()
    assert f'"{manifest["version"]}"' in (SOURCES / "src/version.ts").read_text()
