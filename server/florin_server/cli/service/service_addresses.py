"""The addresses of a service, for the terminal and for other commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from florin_server.app.servers import consoles
from florin_server.app.service import FlorinService
from florin_server.cli.console import console, print_json_line
from florin_server.web.console.paths import ROOT


@dataclass(frozen=True, slots=True)
class ServiceAddresses:
    """The addresses of a service; an address is empty if the service does not have it."""

    home: Path
    files: Sequence[Path]
    http: str
    grpc: str
    operator: str
    metrics: Sequence[str] = ()
    has_console: bool = False
    chains: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_service(cls, service: FlorinService) -> Self:
        """Return the addresses of a service in this process."""
        return cls(
            home=service.home.path,
            files=service.settings.list_files()[:1],
            http=service.http_url,
            grpc=service.grpc.target,
            operator=service.grpc.operator_target,
            metrics=[service.metrics_url] if service.metrics_url else [],
            has_console=consoles.has_merchant_console(service.settings),
            chains={"evm_rpc": service.evm_rpc_url, "solana_rpc": service.solana_rpc_url},
        )

    def to_json(self) -> dict[str, str]:
        """Return the addresses as other commands read them."""
        return {
            "http": self.http,
            "grpc": self.grpc,
            "operator": self.operator,
            "evm_rpc": self.chains.get("evm_rpc", ""),
            "solana_rpc": self.chains.get("solana_rpc", ""),
            "settings": "".join(str(path.resolve()) for path in self.files),
        }

    def print_addresses(self) -> None:
        """Print the addresses."""
        print_json_line({name: place for name, place in self.to_json().items() if place})
        rpc, solana = (self.chains.get(kind, "") for kind in ("evm_rpc", "solana_rpc"))
        places = {
            "REST": self.http,
            "Console": f"{self.http}{ROOT}" if self.has_console and self.http else "",
            "gRPC": self.grpc,
            "Metrics": " ".join(self.metrics),
            "Test chain": rpc and f"{rpc}  (JSON-RPC, chain id 31337)",
            "Solana test chain": solana and f"{solana}  (JSON-RPC)",
            "State": str(self.home),
            "Settings": "".join(map(str, self.files)),
        }
        places = {what: place for what, place in places.items() if place}
        console.print("[bold green]Florin is up.[/]", markup=True)
        for what, place in places.items():
            # whole, even on narrow terminals: users copy them
            console.print(f"{what:<{max(map(len, places))}}  {place}")
