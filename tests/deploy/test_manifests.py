"""Container, compose and Kubernetes files: valid, with existing settings, ports and paths."""

from __future__ import annotations

import ast
import json
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from florin_server.settings import Settings

from tests.deploy import tools
from tests.deploy.front import DEPLOY
from tests.deploy.manifests import PORTS, chosen, documents, run_private

ROOT = DEPLOY.parent
CONTAINERFILE = DEPLOY / "container" / "Containerfile"
NUMBER = "10001"


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"^#.*\n", "", CONTAINERFILE.read_text(), flags=re.MULTILINE)
    return [tuple(line.split(" ", 1)) for line in text.splitlines() if line]


def of(kind: str) -> list[str]:
    return [text for name, text in instructions() if name == kind]


# Kubernetes


@pytest.fixture
def kubernetes() -> dict[str, Any]:
    return {item["kind"]: item for item in documents("kubernetes/florin.yaml")}


@pytest.mark.parametrize("version", ["1.29", "1.37"])
def test_kubernetes_knows_every_field(kubernetes, version, monkeypatch):
    monkeypatch.syspath_prepend(tools.needed(tools.packages()))
    import kubernetes_validate  # type: ignore[import-not-found]

    for kubernete in kubernetes.values():
        kubernetes_validate.validate(kubernete, version, strict=True)
    wrong = {**kubernetes["Service"], "spec": {"typo": 1}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, version, strict=True)


def pod(kubernetes: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    spec = kubernetes["Deployment"]["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    return spec, container


def test_the_pod_may_do_little(kubernetes):
    spec, container = pod(kubernetes)
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert {
        spec["securityContext"][each_item] for each_item in ("runAsUser", "runAsGroup", "fsGroup")
    } == {int(NUMBER)}
    for item in (container, *spec["initContainers"]):
        assert item["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert item["image"] == container["image"]


def test_pod_init_container_sets_up_a_private_home_with_its_secrets(kubernetes, tmp_path):
    """Its init command is run verbatim, in another folder."""
    spec, container = pod(kubernetes)
    (first,) = spec["initContainers"]
    (command,) = first["args"]
    mounts = {
        volume_mount["mountPath"]: volume_mount["name"] for volume_mount in first["volumeMounts"]
    }
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    assert "emptyDir" in volumes[mounts["/var/lib/florin"]]
    (tmp_path / "secrets.json").write_text("{}")
    home = tmp_path / "home"
    run_private(command.replace("/run/secrets", str(tmp_path)), home)
    settings = {item["name"]: item["value"] for item in container["env"]}
    assert {"name": "FLORIN_HOME", "value": settings["FLORIN_HOME"]} in first["env"]
    assert container["args"] == ["serve"]


def test_the_pod_s_settings_are_settings(kubernetes, monkeypatch, tmp_path):
    _, container = pod(kubernetes)
    (name, text) = next(iter(kubernetes["ConfigMap"]["data"].items()))
    (tmp_path / name).write_text(text)
    assert set(tomllib.loads(text)) <= set(Settings.model_fields)
    settings = chosen(
        {item["name"]: item["value"] for item in container["env"]}, monkeypatch, tmp_path
    )
    assert settings.pay_url == "https://pay.example"
    assert settings.has_demo is False
    # files are in volumes, and only the state is written to
    mounts = {volume_mount["mountPath"]: volume_mount for volume_mount in container["volumeMounts"]}
    files = (
        settings.tls_certificate,
        settings.tls_key,
        settings.keystore_password_file,
        settings.store_file,
    )
    for file in files:
        assert mounts[str(file.parent)]["readOnly"] is True
    assert mounts[container["workingDir"]]["readOnly"] is True
    # the volume's own folder belongs to its group, and Florin refuses such a home
    assert "readOnly" not in mounts[str(settings.home.parent)]


def test_secrets_are_not_for_everybody(kubernetes):
    spec, _ = pod(kubernetes)
    secrets = [volume["secret"] for volume in spec["volumes"] if "secret" in volume]
    assert len(secrets) == 4
    for secret in secrets:
        assert secret["defaultMode"] & 0o007 == 0


def test_ports_and_probes_are_those_that_there_are(kubernetes):
    _, container = pod(kubernetes)
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert set(ports.values()) == PORTS
    service = kubernetes["Service"]["spec"]
    assert {port["targetPort"] for port in service["ports"]} == set(ports)
    # callers' addresses are preserved
    assert service["externalTrafficPolicy"] == "Local"
    probes = {name: container[f"{name}Probe"] for name in ("startup", "liveness", "readiness")}
    paths = {name: each_probe["httpGet"]["path"] for name, each_probe in probes.items()}
    assert paths == {"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"}
    for probe in probes.values():
        assert (probe["httpGet"]["port"], probe["httpGet"]["scheme"]) == ("rest", "HTTPS")
    served = (ROOT / "server/florin_server/app/servers/gateway.py").read_text()
    assert all(f'"{path}"' in served for path in paths.values())


def test_everything_is_about_the_same_pod(kubernetes):
    labels = kubernetes["Deployment"]["spec"]["template"]["metadata"]["labels"]
    for kind, place in (
        ("Deployment", ["selector", "matchLabels"]),
        ("Service", ["selector"]),
        ("PodDisruptionBudget", ["selector", "matchLabels"]),
    ):
        spec = kubernetes[kind]["spec"]
        for text in place:
            spec = spec[text]
        assert spec == labels
    # one pod stays available during every move or replacement
    deployment = kubernetes["Deployment"]["spec"]
    assert deployment["replicas"] == 2
    assert deployment["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert kubernetes["PodDisruptionBudget"]["spec"]["maxUnavailable"] == 1
    assert deployment["template"]["spec"]["topologySpreadConstraints"][0]["labelSelector"] == {
        "matchLabels": labels
    }


def test_the_pod_gets_the_time_that_it_takes_to_end(kubernetes, monkeypatch, tmp_path):
    spec, container = pod(kubernetes)
    settings = chosen(
        {item["name"]: item["value"] for item in container["env"]}, monkeypatch, tmp_path
    )
    assert settings.drain_s >= 5
    least = settings.drain_s + 2 * settings.shutdown_s + 10
    assert spec["terminationGracePeriodSeconds"] > least


def test_manifest_version_matches_the_project(kubernetes):
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert pod(kubernetes)[1]["image"].endswith(f":{version}")


# compose


@pytest.fixture
def compose() -> dict[str, Any]:
    (result,) = documents("compose/compose.yaml")
    return result


def florins(compose: dict[str, Any]) -> dict[str, Any]:
    return {
        name: service for name, service in compose["services"].items() if name.startswith("florin-")
    }


def test_compose_s_settings_are_settings(compose, monkeypatch, tmp_path):
    front = compose["services"]["front"]
    for florin in florins(compose).values():
        settings = chosen(florin["environment"], monkeypatch, tmp_path)
        # only the front is trusted
        inside = front["networks"]["inside"]["ipv4_address"]
        assert [str(trusted_proxy) for trusted_proxy in settings.trusted_proxies] == [
            f"{inside}/32"
        ]
        # plain text is used only on the network that the front is on
        assert (settings.insecure_bind, "ports" in florin) == (True, False)
        assert list(florin["networks"]) == ["inside"]
        for file in (settings.keystore_password_file, settings.store_file):
            assert file.parent == Path("/run/secrets")
            assert file.name in florin["secrets"]
        assert set(florin["secrets"]) <= set(compose["secrets"])
        assert florin["read_only"] is True


def test_compose_has_two_florins_that_differ_in_their_address_only(compose):
    item, other = florins(compose).values()
    addresses = [each.pop("networks")["inside"]["ipv4_address"] for each in (item, other)]
    assert item == other
    services = compose["services"]
    taken = [services[name]["networks"]["inside"]["ipv4_address"] for name in ("front", "postgres")]
    assert len({*addresses, *taken}) == 4
    # the front waits for both, and both for the database
    assert set(services["front"]["depends_on"]) == set(florins(compose))
    assert list(item["depends_on"]) == ["postgres"]
    assert "ports" not in services["postgres"]


def test_a_florin_of_compose_begins_with_the_secrets_of_the_other(compose, tmp_path):
    item, _ = florins(compose).values()
    (command,) = item["command"]
    assert item["entrypoint"] == ["/bin/sh", "-c"]
    making, _, program = command.replace("$$", "$").rpartition(" && exec ")
    assert program == "/opt/florin/.venv/bin/florin serve"
    (tmp_path / "secrets.json").write_text("{}")
    for _ in range(2):
        run_private(making.replace("/run/secrets", str(tmp_path)), tmp_path / "home")


def test_compose_s_files_are_there(compose):
    build = compose["services"]["florin-1"]["build"]
    folder = DEPLOY / "compose"
    assert (folder / build["context"] / build["dockerfile"]).resolve() == CONTAINERFILE
    mounted = [
        volume.split(":")[0] for each in compose["services"].values() for volume in each["volumes"]
    ]
    files = {item for item in mounted if item.startswith(".")}
    # the operator supplies secrets and chains
    assert {file for file in files if not (folder / file).exists()} == {
        *("./tls", "./florin.toml", "./keys"),
    }
    assert set(mounted) - files == set(compose["volumes"])
    upstreams = (folder / "upstreams.conf").read_text()
    for port in PORTS:
        for name in florins(compose):
            assert f"server {name}:{port} " in upstreams


def test_compose_looks_whether_florin_is_ready(compose):
    _, python, option, code = compose["services"]["florin-1"]["healthcheck"]["test"]
    assert (python, option) == ("/opt/florin/.venv/bin/python", "-c")
    ast.parse(code)
    (port,) = re.findall(r"http://127\.0\.0\.1:(\d+)/readyz", code)
    assert int(port) in PORTS


# the container file


def test_image_installs_what_make_install_installs():
    """The options of uv differ in where the sources and the environment are."""
    listed = subprocess.run(
        ["make", "--dry-run", "install", "VENV=/nonexistent"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    (ours,) = re.findall(r"uv sync (.*?) &&", listed.stdout)
    (theirs,) = re.findall(r"uv sync (.*)", "\n".join(of("RUN")))
    place = "--project source --python python3.11 "
    assert place in theirs
    same = theirs.replace(place, "").replace("--no-editable", "--inexact")
    assert sorted(same.split()) == sorted(ours.split())


def test_container_runs_unprivileged_and_only_with_existing_settings(monkeypatch, tmp_path):
    assert of("USER") == [f"{NUMBER}:{NUMBER}"]
    (entry,), (command,) = of("ENTRYPOINT"), of("CMD")
    assert [*json.loads(entry), *json.loads(command)] == ["/opt/florin/.venv/bin/florin", "serve"]
    (text,) = of("ENV")
    settings = chosen(
        dict(each_text.split("=", 1) for each_text in shlex.split(text)), monkeypatch, tmp_path
    )
    assert settings.has_demo is False
    (exposed,) = of("EXPOSE")
    assert {int(each_text) for each_text in exposed.split()} == PORTS
    bases = {each_text.split(" AS ")[0] for each_text in of("FROM")}
    assert len(bases) == 1, "an environment is not moved to another Python"
    assert f"python{sys.version_info[0]}.{sys.version_info[1]}".replace("python", "python:") in (
        bases.pop()
    )
