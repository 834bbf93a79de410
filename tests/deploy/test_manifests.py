"""Container, compose and Kubernetes files: valid, and of settings, ports and paths of Florin."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from florin_server.boot.home import Home
from florin_server.config import Settings

from tests.deploy import tools
from tests.deploy.front import DEPLOY

ROOT = DEPLOY.parent
PORTS = {Settings.model_fields[name].default for name in ("http_port", "grpc_port")}
CONTAINERFILE = DEPLOY / "container" / "Containerfile"
NUMBER = "10001"


def documents(name: str) -> list[Any]:
    return [one for one in yaml.safe_load_all((DEPLOY / name).read_text()) if one]


def chosen(said: dict[str, Any], monkeypatch: pytest.MonkeyPatch, folder: Path) -> Settings:
    """What Florin makes of variables; all of them are settings."""
    fields = {f"FLORIN_{one.upper()}" for one in Settings.model_fields}
    assert {name.partition("__")[0] for name in said} <= fields
    monkeypatch.chdir(folder)
    for name, value in said.items():
        assert isinstance(value, str), f"{name} is no text: YAML makes another of it"
        monkeypatch.setenv(name, value)
    return Settings()


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"^#.*\n", "", CONTAINERFILE.read_text(), flags=re.MULTILINE)
    return [tuple(line.split(" ", 1)) for line in text.splitlines() if line]


def of(kind: str) -> list[str]:
    return [text for name, text in instructions() if name == kind]


# Kubernetes


@pytest.fixture
def kubernetes() -> dict[str, Any]:
    return {one["kind"]: one for one in documents("kubernetes/florin.yaml")}


@pytest.mark.parametrize("version", ["1.29", "1.37"])
def test_kubernetes_knows_every_field(kubernetes, version, monkeypatch):
    monkeypatch.syspath_prepend(tools.needed(tools.packages()))
    import kubernetes_validate  # type: ignore[import-not-found]

    for one in kubernetes.values():
        kubernetes_validate.validate(one, version, strict=True)
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
    assert {spec["securityContext"][one] for one in ("runAsUser", "runAsGroup", "fsGroup")} == {
        int(NUMBER)
    }
    for one in (container, *spec["initContainers"]):
        assert one["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert one["image"] == container["image"]


def test_the_pod_begins_with_the_secrets_of_the_others(kubernetes, tmp_path):
    """What it does first is run as it stands there, in another folder."""
    spec, container = pod(kubernetes)
    (first,) = spec["initContainers"]
    (command,) = first["args"]
    mounts = {one["mountPath"]: one["name"] for one in first["volumeMounts"]}
    volumes = {one["name"]: one for one in spec["volumes"]}
    assert "emptyDir" in volumes[mounts["/var/lib/florin"]]
    (tmp_path / "secrets.json").write_text("{}")
    home = tmp_path / "home"
    run(command.replace("/run/secrets", str(tmp_path)), home)
    settings = {one["name"]: one["value"] for one in container["env"]}
    assert {"name": "FLORIN_HOME", "value": settings["FLORIN_HOME"]} in first["env"]
    assert container["args"] == ["serve"]


def run(command: str, home: Path) -> None:
    """Runs a shell's command; the home that it makes is Florin's alone."""
    env = {"PATH": os.environ["PATH"], "FLORIN_HOME": str(home)}
    subprocess.run(["/bin/sh", "-c", command], env=env, check=True, timeout=10)
    assert (home / "secrets.json").exists()
    assert Home(home).exposed() == []


def test_the_pod_s_settings_are_settings(kubernetes, monkeypatch, tmp_path):
    _, container = pod(kubernetes)
    (name, text) = next(iter(kubernetes["ConfigMap"]["data"].items()))
    (tmp_path / name).write_text(text)
    assert set(tomllib.loads(text)) <= set(Settings.model_fields)
    found = chosen({one["name"]: one["value"] for one in container["env"]}, monkeypatch, tmp_path)
    assert found.pay_url == "https://pay.example"
    assert found.has_demo is False
    # files are in volumes, and only the state is written to
    mounts = {one["mountPath"]: one for one in container["volumeMounts"]}
    files = found.tls_certificate, found.tls_key, found.keystore_password_file, found.store_file
    for file in files:
        assert mounts[str(file.parent)]["readOnly"] is True
    assert mounts[container["workingDir"]]["readOnly"] is True
    # the volume's own folder is its group's, which Florin does not take for its home
    assert "readOnly" not in mounts[str(found.home.parent)]


def test_secrets_are_not_for_everybody(kubernetes):
    spec, _ = pod(kubernetes)
    secrets = [one["secret"] for one in spec["volumes"] if "secret" in one]
    assert len(secrets) == 4
    for one in secrets:
        assert one["defaultMode"] & 0o007 == 0


def test_ports_and_probes_are_those_that_there_are(kubernetes):
    _, container = pod(kubernetes)
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    assert set(ports.values()) == PORTS
    service = kubernetes["Service"]["spec"]
    assert {one["targetPort"] for one in service["ports"]} == set(ports)
    # callers' addresses pass
    assert service["externalTrafficPolicy"] == "Local"
    probes = {name: container[f"{name}Probe"] for name in ("startup", "liveness", "readiness")}
    paths = {name: one["httpGet"]["path"] for name, one in probes.items()}
    assert paths == {"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"}
    for one in probes.values():
        assert (one["httpGet"]["port"], one["httpGet"]["scheme"]) == ("rest", "HTTPS")
    served = (ROOT / "server/florin_server/boot/servers/gateway.py").read_text()
    assert all(f'"{path}"' in served for path in paths.values())


def test_everything_is_about_the_same_pod(kubernetes):
    labels = kubernetes["Deployment"]["spec"]["template"]["metadata"]["labels"]
    for kind, place in (
        ("Deployment", ["selector", "matchLabels"]),
        ("Service", ["selector"]),
        ("PodDisruptionBudget", ["selector", "matchLabels"]),
    ):
        found = kubernetes[kind]["spec"]
        for one in place:
            found = found[one]
        assert found == labels
    # one is there whatever is moved or replaced
    deployment = kubernetes["Deployment"]["spec"]
    assert deployment["replicas"] == 2
    assert deployment["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert kubernetes["PodDisruptionBudget"]["spec"]["maxUnavailable"] == 1
    assert deployment["template"]["spec"]["topologySpreadConstraints"][0]["labelSelector"] == {
        "matchLabels": labels
    }


def test_the_pod_gets_the_time_that_it_takes_to_end(kubernetes, monkeypatch, tmp_path):
    spec, container = pod(kubernetes)
    found = chosen({one["name"]: one["value"] for one in container["env"]}, monkeypatch, tmp_path)
    assert found.drain_s >= 5
    least = found.drain_s + 2 * found.shutdown_s + 10
    assert spec["terminationGracePeriodSeconds"] > least


def test_versions_are_told_alike(kubernetes):
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert pod(kubernetes)[1]["image"].endswith(f":{version}")


# compose


@pytest.fixture
def compose() -> dict[str, Any]:
    (found,) = documents("compose/compose.yaml")
    return found


def florins(compose: dict[str, Any]) -> dict[str, Any]:
    return {name: one for name, one in compose["services"].items() if name.startswith("florin-")}


def test_compose_s_settings_are_settings(compose, monkeypatch, tmp_path):
    front = compose["services"]["front"]
    for florin in florins(compose).values():
        found = chosen(florin["environment"], monkeypatch, tmp_path)
        # who is believed is the front, and nobody else
        inside = front["networks"]["inside"]["ipv4_address"]
        assert [str(one) for one in found.trusted_proxies] == [f"{inside}/32"]
        # plain text is spoken where only the front is
        assert (found.insecure_bind, "ports" in florin) == (True, False)
        assert list(florin["networks"]) == ["inside"]
        for file in (found.keystore_password_file, found.store_file):
            assert file.parent == Path("/run/secrets")
            assert file.name in florin["secrets"]
        assert set(florin["secrets"]) <= set(compose["secrets"])
        assert florin["read_only"] is True


def test_compose_has_two_florins_that_differ_in_their_address_only(compose):
    one, other = florins(compose).values()
    addresses = [each.pop("networks")["inside"]["ipv4_address"] for each in (one, other)]
    assert one == other
    services = compose["services"]
    taken = [services[name]["networks"]["inside"]["ipv4_address"] for name in ("front", "postgres")]
    assert len({*addresses, *taken}) == 4
    # the front waits for both, and both for the database
    assert set(services["front"]["depends_on"]) == set(florins(compose))
    assert list(one["depends_on"]) == ["postgres"]
    assert "ports" not in services["postgres"]


def test_a_florin_of_compose_begins_with_the_secrets_of_the_other(compose, tmp_path):
    one, _ = florins(compose).values()
    (command,) = one["command"]
    assert one["entrypoint"] == ["/bin/sh", "-c"]
    making, _, program = command.replace("$$", "$").rpartition(" && exec ")
    assert program == "/opt/florin/.venv/bin/florin serve"
    (tmp_path / "secrets.json").write_text("{}")
    for _ in range(2):
        run(making.replace("/run/secrets", str(tmp_path)), tmp_path / "home")


def test_compose_s_files_are_there(compose):
    build = compose["services"]["florin-1"]["build"]
    folder = DEPLOY / "compose"
    assert (folder / build["context"] / build["dockerfile"]).resolve() == CONTAINERFILE
    mounted = [
        one.split(":")[0] for each in compose["services"].values() for one in each["volumes"]
    ]
    files = {one for one in mounted if one.startswith(".")}
    # what is secret, and which chains there are, is the operator's
    assert {one for one in files if not (folder / one).exists()} == {
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


def test_it_installs_as_make_does():
    """What `make setup` runs before every test, into the same place below another folder."""
    makefile = (ROOT / "Makefile").read_text()
    recipe = makefile.partition("$(RUN): ")[2].partition("\n\n")[0]
    ours = [one for one in re.findall(r"^\t(.*)$", recipe, re.MULTILINE) if "pip" in one]
    theirs = [one for one in of("RUN") if " pip " in one]
    changes = {"$(BIN)": ".venv/bin", "-e client -e .": "./source/client ./source"}
    for before, after in changes.items():
        ours = [one.replace(before, after) for one in ours]
    assert theirs == ours


def test_it_runs_as_nobody_and_only_what_is_there(monkeypatch, tmp_path):
    assert of("USER") == [f"{NUMBER}:{NUMBER}"]
    (entry,), (command,) = of("ENTRYPOINT"), of("CMD")
    assert [*json.loads(entry), *json.loads(command)] == ["/opt/florin/.venv/bin/florin", "serve"]
    (said,) = of("ENV")
    found = chosen(dict(one.split("=", 1) for one in shlex.split(said)), monkeypatch, tmp_path)
    assert found.has_demo is False
    (exposed,) = of("EXPOSE")
    assert {int(one) for one in exposed.split()} == PORTS
    bases = {one.split(" AS ")[0] for one in of("FROM")}
    assert len(bases) == 1, "an environment is not moved to another Python"
    assert f"python{sys.version_info[0]}.{sys.version_info[1]}".replace("python", "python:") in (
        bases.pop()
    )
    # what is ignored is not needed
    ignored = (ROOT / ".containerignore").read_text().split()
    assert not {"server", "gateway", "client", "notebooks", "protos"} & set(ignored)
