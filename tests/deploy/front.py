"""nginx or Envoy in front of a Florin, with the files of `deploy` and other paths and ports."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

from cryptography import x509

from tests.deploy import tools
from tests.support.authority import CertificateAuthority
from tests.support.until import wait_until

DEPLOY = Path(__file__).parents[2] / "deploy"
NAME = "127.0.0.1"

_NGINX = """\
daemon off; pid {folder}/nginx.pid; error_log stderr warn; worker_processes 2; {user}
events {{ worker_connections 1024; }}
http {{
    access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/a; uwsgi_temp_path {folder}/b; scgi_temp_path {folder}/c;
    include {folder}/*.conf;
}}
"""


class Front:
    """A running front; `port` speaks TLS."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind, self.folder = kind, folder
        self.authority = CertificateAuthority(folder, "ours")
        self.tls = folder / "tls"
        self.tls.mkdir()
        self.port, self.plain = allocate_port(), allocate_port()
        self.trust = ssl.create_default_context(cafile=self.authority.ca)
        self.process: subprocess.Popen[bytes] | None = None
        self.certify()

    @property
    def base(self) -> str:
        return f"https://{NAME}:{self.port}"

    def certify(self) -> int:
        """Put a new certificate where the front expects it; return its number."""
        for file, name in zip(self.authority.issue(NAME), ("tls.crt", "tls.key"), strict=True):
            file.replace(self.tls / name)
        text = (self.tls / "tls.crt").read_bytes()
        return x509.load_pem_x509_certificate(text).serial_number

    def start(self, command: list[str]) -> None:
        with (self.folder / "said").open("wb") as text:
            self.process = subprocess.Popen(command, stdout=text, stderr=text)

    def end(self) -> None:
        assert self.process is not None
        self.process.terminate()
        self.process.wait(20)

    def reload(self) -> None:
        """Make the front reload the certificate; Envoy does so automatically."""
        assert self.process is not None
        if self.kind == "nginx":
            self.process.send_signal(signal.SIGHUP)

    async def shown(self) -> int:
        """Return the number of the certificate that a new connection gets."""
        _, writer = await asyncio.open_connection(NAME, self.port, ssl=self.trust)
        raw = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        return x509.load_der_x509_certificate(raw).serial_number

    async def listens(self) -> bool:
        """Return True once it accepts connections; fail if it has ended."""
        assert self.process is not None
        assert self.process.poll() is None, (self.folder / "said").read_text()
        try:
            _, writer = await asyncio.open_connection(NAME, self.port)
        except OSError:
            return False
        writer.close()
        return True


@asynccontextmanager
async def running(kind: str, folder: Path, rest: str, grpc: str) -> AsyncIterator[Front]:
    """Run a front of a REST address and a gRPC target."""
    front = Front(kind, folder)
    command = _COMMANDS[kind](front, f"{NAME}:{urlsplit(rest).port}", grpc)
    front.start(command)
    try:
        await wait_until(front.listens)
        yield front
    finally:
        front.end()


def _nginx(front: Front, rest: str, grpc: str) -> list[str]:
    folder = front.folder
    changes = {
        "listen 443 ssl http2": f"listen {NAME}:{front.port} ssl http2",
        "listen 80": f"listen {NAME}:{front.plain}",
        "/etc/nginx/tls": str(front.tls),
    }
    _put("nginx/florin.conf", folder / "florin.conf", changes)
    places = {"127.0.0.1:8080": rest, "127.0.0.1:50051": grpc}
    _put("nginx/upstreams.conf", folder / "upstreams.conf", places)
    # differences from a package's own file; root's workers may not read this folder
    user = "user root;" if os.geteuid() == 0 else ""
    (folder / "main").write_text(_NGINX.format(folder=folder, user=user))
    program = str(tools.needed(tools.nginx()))
    return [program, "-p", str(folder), "-e", "stderr", "-c", str(folder / "main")]


def _envoy(front: Front, rest: str, grpc: str) -> list[str]:
    folder = front.folder
    certificate = folder / "certificate.yaml"
    _put("envoy/certificate.yaml", certificate, {"/etc/envoy/tls": str(front.tls)})
    changes = {
        "address: 0.0.0.0, port_value: 443": f"address: {NAME}, port_value: {front.port}",
        "/etc/envoy/certificate.yaml": str(certificate),
        "address: 127.0.0.1, port_value: 8080": _place(rest),
        "address: 127.0.0.1, port_value: 50051": _place(grpc),
    }
    _put("envoy/envoy.yaml", folder / "envoy.yaml", changes)
    program = str(tools.needed(tools.envoy()))
    own = ("--disable-hot-restart", "--concurrency", "2", "--log-level", "warning")
    return [program, "-c", str(folder / "envoy.yaml"), *own]


_COMMANDS: Mapping[str, Callable[[Front, str, str], list[str]]] = {
    "nginx": _nginx,
    "envoy": _envoy,
}


def _put(source: str, file: Path, changes: Mapping[str, str]) -> None:
    text = (DEPLOY / source).read_text()
    for before, after in changes.items():
        assert before in text, f"{source} has no {before!r}"
        text = text.replace(before, after)
    file.write_text(text)


def _place(target: str) -> str:
    host, _, port = target.rpartition(":")
    return f"address: {host}, port_value: {port}"


def allocate_port() -> int:
    with socket.create_server((NAME, 0)) as server:
        return int(server.getsockname()[1])
