"""The Helm chart: what it renders is valid, and by default what deploy/kubernetes has."""

from __future__ import annotations

import asyncio
import copy
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args
from urllib.parse import urlsplit

import aiohttp
import pytest
import yaml
from florin_server.settings import Settings
from pydantic import SecretStr
from yarl import URL

from tests.deploy import tools
from tests.deploy.front import DEPLOY, NAME, allocate_port
from tests.deploy.manifests import PORTS, chosen, documents, run_private
from tests.support.service_harness import open_service
from tests.support.until import wait_until

pytestmark = pytest.mark.slow

CHART = DEPLOY / "helm" / "florin"
PRODUCTION = DEPLOY / "helm" / "production.yaml"
KUBERNETES = ("1.29", "1.37")
EVERYTHING = {
    "image": {"digest": "sha256:" + "0" * 64, "pullPolicy": "Always", "pullSecrets": ["registry"]},
    "configSecret": "florin-toml",
    "env": {"FLORIN_LOG_FORMAT": "json", "FLORIN_SHUTDOWN_S": "20.5"},
    "secrets": {"gatewayToken": "florin-gateway"},
    "trustedProxies": ["10.0.0.0/8", "fd00::/8"],
    "migration": {"mode": "hook"},
    "serve": {"tag": "0.3.0", "podAnnotations": {"a": "b"}, "nodeSelector": {"disk": "ssd"}},
    "worker": {"enabled": True, "tolerations": [{"key": "a", "operator": "Exists"}]},
    "gateway": {
        "enabled": True,
        "serverName": "pay.example",
        "caSecret": "florin-ca",
        "service": {"type": "LoadBalancer", "annotations": {"a": "b"}},
    },
    "ingress": {"enabled": True, "grpc": {"enabled": True}},
    "autoscaling": {"enabled": True},
    "metrics": {"enabled": True, "serviceMonitor": {"enabled": True, "labels": {"team": "a"}}},
    "networkPolicy": {
        "enabled": True,
        "callers": [{"ipBlock": {"cidr": "192.0.2.0/24"}}],
        "prometheus": [{"podSelector": {}}],
        "egress": [{"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]}],
    },
}


def run_helm(*arguments: str, values: object = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(tools.needed(tools.helm())), *arguments, "--values", "-"],
        input=json.dumps(values or {}),
        env={**os.environ, "HELM_NO_PLUGINS": "1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def render(values: object = None, *arguments: str) -> list[dict[str, Any]]:
    done = run_helm("template", "florin", str(CHART), *arguments, values=values)
    assert done.returncode == 0, done.stderr
    return [item for item in yaml.safe_load_all(done.stdout) if item]


def render_production() -> list[dict[str, Any]]:
    return render(yaml.safe_load(PRODUCTION.read_text()))


def get_object(objects: list[dict[str, Any]], kind: str, name: str = "florin") -> dict[str, Any]:
    (result,) = [
        item for item in objects if (item["kind"], item["metadata"]["name"]) == (kind, name)
    ]
    return result


def list_pods(objects: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    for item in objects:
        if item["kind"] in {"Deployment", "Job"}:
            yield item["metadata"]["name"], item["spec"]["template"]["spec"]


def get_env(pod: dict[str, Any]) -> dict[str, str]:
    return {item["name"]: item["value"] for item in pod["containers"][0]["env"]}


VALUES = {
    "default": {},
    "production": yaml.safe_load(PRODUCTION.read_text()),
    "everything": EVERYTHING,
}


@pytest.fixture(params=VALUES)
def objects(request) -> list[dict[str, Any]]:
    return render(VALUES[request.param])


@pytest.mark.parametrize("values", VALUES)
def test_helm_accepts_the_chart(values):
    done = run_helm("lint", "--strict", str(CHART), values=VALUES[values])
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("version", KUBERNETES)
def test_kubernetes_knows_every_field_of_the_chart(objects, version, monkeypatch):
    monkeypatch.syspath_prepend(tools.needed(tools.packages()))
    import kubernetes_validate  # type: ignore[import-not-found]

    for item in objects:
        # a type of the Prometheus operator
        if item["kind"] != "ServiceMonitor":
            kubernetes_validate.validate(item, version, strict=True)


def strip(item: dict[str, Any]) -> dict[str, Any]:
    """Return an object without its labels and annotations, and lists of names in one order."""
    item = copy.deepcopy(item)
    del item["metadata"]["labels"]
    spec = item.get("spec", {})
    spec.pop("selector", None)
    if "template" in spec:
        del spec["template"]["metadata"]
        pod = spec["template"]["spec"]
        for constraint in pod["topologySpreadConstraints"]:
            del constraint["labelSelector"]
        pod["volumes"].sort(key=lambda volume: volume["name"])
        for container in (*pod["containers"], *pod["initContainers"]):
            container["volumeMounts"].sort(key=lambda mount: mount["name"])
            container["env"].sort(key=lambda variable: variable["name"])
    return item


def test_chart_renders_the_kubernetes_manifest_by_default():
    manifest = {item["kind"]: item for item in documents("kubernetes/florin.yaml")}
    del manifest["ConfigMap"]["data"]
    manifest["ConfigMap"]["metadata"]["labels"] = {}
    rendered = {item["kind"]: item for item in render()}
    text = rendered["ConfigMap"].pop("data")["florin.toml"]
    assert tomllib.loads(text) == {"pay_url": "https://pay.example"}
    assert rendered.keys() == manifest.keys()
    for kind, item in rendered.items():
        assert strip(item) == strip(manifest[kind]), kind


def test_chart_names_the_version_of_the_project():
    version = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())["project"]["version"]
    for _, pod in list_pods(render()):
        for container in (*pod["containers"], *pod.get("initContainers", [])):
            assert container["image"] == f"registry.example/florin:{version}"


def test_every_pod_of_the_chart_may_do_little(objects):
    for name, pod in list_pods(objects):
        assert pod["automountServiceAccountToken"] is False, name
        assert pod["securityContext"] == {
            "runAsNonRoot": True,
            **dict.fromkeys(("runAsUser", "runAsGroup", "fsGroup"), 10001),
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        for container in (*pod["containers"], *pod.get("initContainers", [])):
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            mounts = {mount["name"] for mount in container.get("volumeMounts", [])}
            assert mounts <= {volume["name"] for volume in pod["volumes"]}, name
        for container in pod["containers"]:
            assert container["resources"]["limits"]["memory"], name


def test_variables_of_every_pod_are_settings(objects, monkeypatch, tmp_path):
    for name, pod in list_pods(objects):
        with monkeypatch.context() as context:
            settings = chosen(get_env(pod), context, tmp_path)
        container = pod["containers"][0]
        mounted = [mount["mountPath"] for mount in container["volumeMounts"]]
        files = (
            settings.store_file,
            settings.keystore_password_file,
            settings.gateway_token_file,
            settings.tls_certificate,
            settings.tls_key,
        )
        for file in filter(None, files):
            assert str(file.parent) in mounted, f"{name}: {file}"
        ports = {port["containerPort"] for port in container.get("ports", [])}
        assert ports <= PORTS
        assert settings.shutdown_s in {Settings.model_fields["shutdown_s"].default, 20.5}
        if "terminationGracePeriodSeconds" in pod:
            least = settings.drain_s + 2 * settings.shutdown_s + 10
            assert pod["terminationGracePeriodSeconds"] > least, name


def test_secrets_are_in_no_config_map_and_no_variable(objects):
    secret = {name for name, field in Settings.model_fields.items() if is_secret(field.annotation)}
    assert secret == {"store", "store_standby", "gateway_token", "keystore_password"}
    for name, pod in list_pods(objects):
        assert not {f"FLORIN_{setting.upper()}" for setting in secret} & get_env(pod).keys(), name
        for volume in pod["volumes"]:
            if "secret" in volume:
                assert volume["secret"]["defaultMode"] & 0o007 == 0
    for item in objects:
        assert item["kind"] != "Secret"
        if item["kind"] == "ConfigMap" and "florin.toml" in item["data"]:
            assert not secret & tomllib.loads(item["data"]["florin.toml"]).keys()
    for setting in {*secret, "event_sink__password", "event_sink__token"}:
        refused = {"env": {f"FLORIN_{setting.upper()}": "hunter2"}}
        assert f"env.FLORIN_{setting.upper()}: it is a secret" in read_refusal(refused)
        key = setting.rpartition("__")[2]
        for text in (f'{key} = "hunter2"', f"a = 1\n  {key}='hunter2'"):
            assert "a ConfigMap is not secret" in read_refusal({"config": text})


def is_secret(annotation: object) -> bool:
    return annotation is SecretStr or SecretStr in get_args(annotation)


def read_refusal(values: object) -> str:
    done = run_helm("template", "florin", str(CHART), values=values)
    assert done.returncode != 0, "it is accepted"
    assert "hunter2" not in done.stderr
    assert done.stdout == ""
    return done.stderr


PLAIN = {"tls": {"enabled": False}}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"serve": {"replicas": 0}}, "serve.replicas: Must be greater than or equal to 1"),
        ({"serve": {"replicas": "two"}}, "serve.replicas: Invalid type. Expected: integer"),
        ({"serve": {"replica": 2}}, "serve: Additional property replica is not allowed"),
        ({"workers": {}}, "Additional property workers is not allowed"),
        ({"image": {"tag": "a b"}}, "image.tag: Does not match pattern"),
        ({"secrets": {"store": ""}}, "secrets.store: Does not match pattern"),
        ({"secrets": {"store": "a, b: c"}}, "secrets.store: Does not match pattern"),
        ({"env": {"PATH": "/"}}, "env: Property name of "),
        ({"env": {"FLORIN_CONSOLE": True}}, "env.FLORIN_CONSOLE: Invalid type. Expected: string"),
        ({"env": {"FLORIN_HOST": "::"}}, "env.FLORIN_HOST: the chart sets it"),
        ({"migration": {"mode": "never"}}, "migration.mode: migration.mode must be one of"),
        ({"config": 'u = "https://a:hunter2@node.example"'}, "an address contains a password"),
        ({"ingress": {"enabled": True}}, "ingress.enabled: set trustedProxies to the networks"),
        ({"trustedProxies": ["everybody"]}, "trustedProxies.0: Does not match pattern"),
        (PLAIN, "tls.enabled: a service of type LoadBalancer is reachable from outside"),
        (
            {**PLAIN, "ingress": {"enabled": True}, "trustedProxies": ["10.0.0.0/8"]},
            "service.type: LoadBalancer bypasses the ingress",
        ),
        ({"gateway": {"enabled": True}}, "gateway.enabled: set secrets.gatewayToken"),
        (
            {"gateway": {"enabled": True}, "secrets": {"gatewayToken": "a"}},
            "gateway.enabled: set gateway.serverName",
        ),
        (
            {
                **PLAIN,
                "service": {"type": "ClusterIP"},
                "secrets": {"gatewayToken": "a"},
                "gateway": {"enabled": True, "service": {"type": "NodePort"}},
            },
            "gateway.service.type: NodePort is reachable from outside",
        ),
        ({"autoscaling": {"enabled": True, "maxReplicas": 1}}, "minReplicas is larger than"),
        (
            {"metrics": {"serviceMonitor": {"enabled": True}}},
            "metrics.serviceMonitor.enabled: set metrics.enabled",
        ),
    ],
)
def test_wrong_values_are_refused_with_a_reason(values, message):
    assert message in read_refusal(values)


def test_every_value_is_in_the_schema():
    """A value that the schema does not know could not be set."""

    def compare(values: dict[str, Any], schema: dict[str, Any], path: str) -> None:
        if "properties" not in schema:
            return
        names = schema["properties"].keys() - {"global"}
        assert values.keys() == names, path
        for name in names:
            if isinstance(values[name], dict):
                compare(values[name], schema["properties"][name], f"{path}.{name}")

    schema = json.loads((CHART / "values.schema.json").read_text())
    compare(yaml.safe_load((CHART / "values.yaml").read_text()), schema, "values")


# production


def test_production_has_three_pods_behind_an_ingress_with_tls():
    rendered = render_production()
    serve = get_object(rendered, "Deployment")["spec"]
    assert serve["replicas"] == 3
    pod = serve["template"]["spec"]
    assert pod["containers"][0]["args"] == ["serve", "--no-settling"]
    assert get_env(pod)["FLORIN_STORE_FILE"] == "/run/store/address"
    assert json.loads(get_env(pod)["FLORIN_TRUSTED_PROXIES"]) == ["10.0.0.0/16"]
    for probe in ("startup", "liveness", "readiness"):
        assert pod["containers"][0][f"{probe}Probe"]["httpGet"]["scheme"] == "HTTP"
    service = get_object(rendered, "Service")["spec"]
    assert service["type"] == "ClusterIP"
    ports = {port["name"] for port in service["ports"]}
    for name in ("florin", "florin-grpc"):
        ingress = get_object(rendered, "Ingress", name)["spec"]
        (rule,), (tls,) = ingress["rules"], ingress["tls"]
        assert (tls["hosts"], bool(tls["secretName"])) == ([rule["host"]], True)
        backend = rule["http"]["paths"][0]["backend"]["service"]
        assert backend["name"] == "florin"
        assert backend["port"]["name"] in ports
    (job,) = [item for item in rendered if item["kind"] == "Job"]
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    assert job["spec"]["template"]["spec"]["containers"][0]["args"] == ["migrate"]
    # what the hook needs exists before the release
    assert {next(iter(volume.keys() - {"name"})) for volume in list_volumes(job)} == {
        "secret",
        "emptyDir",
    }


def list_volumes(item: dict[str, Any]) -> list[dict[str, Any]]:
    volumes: list[dict[str, Any]] = item["spec"]["template"]["spec"]["volumes"]
    return volumes


def test_selectors_of_a_component_select_its_pods_only():
    rendered = render(EVERYTHING)
    labels = {
        item["metadata"]["name"]: item["spec"]["template"]["metadata"]["labels"]
        for item in rendered
        if item["kind"] in {"Deployment", "Job"}
    }
    assert labels.keys() == {"florin", "florin-worker", "florin-gateway", "florin-migrate"}

    def select(selector: dict[str, str]) -> set[str]:
        return {name for name, pod in labels.items() if selector.items() <= pod.items()}

    for item in rendered:
        name, spec = item["metadata"]["name"], item.get("spec", {})
        if item["kind"] in {"Deployment", "PodDisruptionBudget"}:
            assert select(spec["selector"]["matchLabels"]) == {name}
        elif item["kind"] == "NetworkPolicy":
            assert select(spec["podSelector"]["matchLabels"]) == {name}
        elif item["kind"] == "Service" and name != "florin-metrics":
            assert select(spec["selector"]) == {name}
    scaled = get_object(rendered, "HorizontalPodAutoscaler")["spec"]
    assert scaled["scaleTargetRef"]["name"] == "florin"
    assert "replicas" not in get_object(rendered, "Deployment")["spec"]
    monitor = get_object(rendered, "ServiceMonitor")["spec"]
    service = get_object(rendered, "Service", "florin-metrics")
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert [endpoint["port"] for endpoint in monitor["endpoints"]] == [
        port["name"] for port in service["spec"]["ports"]
    ]
    policy = get_object(rendered, "NetworkPolicy", "florin-worker")["spec"]
    assert [rule["ports"][0]["port"] for rule in policy["ingress"]] == ["metrics"]


def test_roles_of_the_chart_start_existing_commands():
    pods = dict(list_pods(render(EVERYTHING)))
    for name, pod in pods.items():
        (command, *options) = pod["containers"][0]["args"]
        done = subprocess.run(
            [str(Path(sys.executable).with_name("florin")), command, "--help"],
            env={**os.environ, "COLUMNS": "200"},
            capture_output=True,
            text=True,
            timeout=240,
            check=True,
        )
        for option in options:
            assert option.partition("=")[0] in done.stdout, f"{name}: {option}"
    gateway = pods["florin-gateway"]["containers"][0]
    assert "--upstream=florin:50051" in gateway["args"]
    # both sides have the token, and no other pod
    with_token = {name for name, pod in pods.items() if "FLORIN_GATEWAY_TOKEN_FILE" in get_env(pod)}
    assert with_token == {"florin", "florin-gateway"}
    assert pods["florin"]["containers"][0]["image"].endswith("florin:0.3.0")
    assert "@sha256:" in pods["florin-worker"]["containers"][0]["image"]


def test_init_containers_of_the_chart_set_up_a_private_home(tmp_path):
    (tmp_path / "secrets.json").write_text("{}")
    for name, pod in list_pods(render(EVERYTHING)):
        for container in pod.get("initContainers", []):
            (command,) = container["args"]
            run_private(command.replace("/run/secrets", str(tmp_path)), tmp_path / name)


async def test_metrics_proxy_forwards_metrics_and_not_the_console(tmp_path):
    """Its configuration is used with other ports and folders."""
    nginx = tools.needed(tools.nginx())
    text = get_object(render_production(), "ConfigMap", "florin-metrics")["data"]["nginx.conf"]
    async with open_service(tmp_path / "home", console=True, metrics_port=0) as service:
        own = service.service.metrics_url.removesuffix("/metrics")
        port = allocate_port()
        changes = {
            "listen 9465": f"listen {NAME}:{port}",
            "http://127.0.0.1:9464": own,
            "/tmp/": f"{tmp_path}/",
        }
        for before, after in changes.items():
            assert before in text
            text = text.replace(before, after)
        user = "user root;\n" if os.geteuid() == 0 else ""
        (tmp_path / "nginx.conf").write_text(user + text)
        command = (str(nginx), "-e", "stderr", "-c", str(tmp_path / "nginx.conf"))
        process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.DEVNULL)
        try:
            base = f"http://{NAME}:{port}"
            async with aiohttp.ClientSession(base) as session:

                async def answers() -> bool:
                    try:
                        async with session.get("/"):
                            return True
                    except aiohttp.ClientConnectionError:
                        return False

                await wait_until(answers)
                async with session.get("/metrics") as answer:
                    assert answer.status == 200
                    assert "florin_store_up 1" in await answer.text()
                async with session.post("/metrics", data=b"x") as answer:
                    assert answer.status == 403
                for path in ("/console", "/metrics/../console", "/%63onsole", "//console"):
                    # sent as it is written here
                    async with session.get(URL(base + path, encoded=True)) as answer:
                        assert answer.status == 404, path
                async with aiohttp.request("GET", f"{own}/console", allow_redirects=False) as page:
                    assert page.status != 404, "the console is not there to be hidden"
        finally:
            process.terminate()
            await process.wait()


async def test_probe_of_the_worker_sees_whether_the_process_answers(tmp_path):
    pod = dict(list_pods(render_production()))["florin-worker"]
    probe = pod["containers"][0]["livenessProbe"]["exec"]["command"]
    assert probe[0] == "/opt/florin/.venv/bin/python"

    async def run_probe(port: int) -> int:
        assert "9464" in probe[-1]
        code = probe[-1].replace("9464", str(port))
        process = await asyncio.create_subprocess_exec(
            sys.executable, *probe[1:-1], code, stderr=asyncio.subprocess.DEVNULL
        )
        return await process.wait()

    async with open_service(tmp_path, metrics_port=0) as service:
        port = urlsplit(service.service.metrics_url).port
        assert port is not None
        assert await run_probe(port) == 0
    assert await run_probe(port) == 1
